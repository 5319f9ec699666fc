"""An interrupt is not lost, wherever it comes."""

import signal
import subprocess
import sys

import pytest

DROPPED = """
import os, signal, time
from schema.cli.interrupts import no_interrupt_lost, terminated_like_interrupted

class Interrupted:
    def __del__(self):
        os.kill(os.getpid(), signal.{signal})
        for _ in range(1000):
            pass

with no_interrupt_lost(), terminated_like_interrupted():
    try:
        Interrupted()
        time.sleep(30)
    except KeyboardInterrupt:
        print("interrupted")
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_one_that_a_destructor_drops_comes_again(number: signal.Signals) -> None:
    code = DROPPED.format(signal=number.name)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=20)
    assert (done.stdout, done.stderr, done.returncode) == ("interrupted\n", "", 0)


def test_another_exception_is_told_as_ever() -> None:
    code = """
from schema.cli.interrupts import no_interrupt_lost

class Broken:
    def __del__(self):
        raise ValueError("broken")

with no_interrupt_lost():
    Broken()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=20)
    assert "ValueError: broken" in done.stderr
    assert done.returncode == 0
