"""Interrupts: SIGTERM as Ctrl-C, and none that is lost."""

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_SOON_S = 0.01


@contextmanager
def no_interrupt_lost() -> Iterator[None]:
    """Deliver an interrupt again that came within a destructor or a weak reference's callback.

    What is raised there Python prints and drops, and the command would go on as if nobody had pressed Ctrl-C.
    """
    before = sys.unraisablehook

    def again(found: "sys.UnraisableHookArgs") -> None:
        if issubclass(found.exc_type, KeyboardInterrupt):
            # Not here and now, where it would be dropped as well.
            main = threading.main_thread().ident
            threading.Timer(_SOON_S, signal.pthread_kill, (main, signal.SIGINT)).start()
        else:
            before(found)

    sys.unraisablehook = again
    try:
        yield
    finally:
        sys.unraisablehook = before


@contextmanager
def terminated_like_interrupted() -> Iterator[None]:
    """Take SIGTERM for Ctrl-C, so that what was made on the way is removed."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
