"""Under which account PostgreSQL's programs run: PostgreSQL refuses to be root."""

import os
import pwd
from dataclasses import dataclass
from typing import Any

from schema.errors import ServerError


@dataclass(frozen=True)
class Account:
    """The account that owns a server's files and runs its programs."""

    name: str
    uid: int
    gid: int
    switch: bool
    """Whether programs have to be switched to it, because we are root."""

    @property
    def process(self) -> dict[str, Any]:
        """Arguments of `subprocess.run` that make a child run as this account, with no other group of ours."""
        return {"user": self.uid, "group": self.gid, "extra_groups": []} if self.switch else {}


def server_account() -> Account:
    """Return the account for servers: ourselves, or for root `postgres` when there is one, else `nobody`.

    Raises:
        ServerError: we are root and have neither.
    """
    if os.geteuid() != 0:
        return Account(_own_name(), os.geteuid(), os.getegid(), switch=False)
    for name in ("postgres", "nobody"):
        try:
            found = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(name, found.pw_uid, found.pw_gid, switch=True)
    raise ServerError(
        "PostgreSQL does not run as root, and there is no account `postgres` or `nobody` to run it",
        hint="Make one (useradd --system postgres), or run as an ordinary user.",
    )


def _own_name() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:  # an account without an entry, as containers have them
        return str(os.geteuid())
