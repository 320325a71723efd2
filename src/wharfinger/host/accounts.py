"""Users of this machine: who a program runs as, and what its environment says of them."""

import os
import pwd
import subprocess
from dataclasses import dataclass
from pathlib import Path

from wharfinger.errors import InvalidInput

_PLACE = "spec.run.user"


@dataclass(frozen=True, slots=True)
class UserAccount:
    """A user by number, with the groups that a login would give; ``groups`` has ``gid``, too."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str
    shell: str

    @property
    def ids(self) -> tuple[int, ...]:
        """The user, the group, and the supplementary groups, as programs of ours take them."""
        return (self.uid, self.gid, *self.groups)

    @property
    def environment(self) -> dict[str, str]:
        """What a login sets."""
        names = {"USER": self.name, "LOGNAME": self.name}
        return {"HOME": self.home, "SHELL": self.shell or "/bin/sh", **names}


def other_account(name: str) -> UserAccount | None:
    """Whom to become; ``None`` where that is who we are, and for an empty name.

    ``InvalidInput``: there is no such user, or we may not become them.
    """
    if not name:
        return None
    try:
        entry = pwd.getpwnam(name)
    except (KeyError, ValueError):
        raise InvalidInput(
            f"{_PLACE}: this machine has no user {name!r}; see 'getent passwd'"
        ) from None
    if entry.pw_uid == os.geteuid():
        return None
    if os.geteuid() != 0:
        raise InvalidInput(
            f"{_PLACE}: {name!r} is not the manager's own user, and only root can run programs "
            "as others; leave it out, or run the manager as root"
        )
    groups = tuple(os.getgrouplist(name, entry.pw_gid))
    return UserAccount(name, entry.pw_uid, entry.pw_gid, groups, entry.pw_dir, entry.pw_shell)


def may_execute(path: Path, account: UserAccount | None) -> bool:
    """Whether a user (``None`` = we) may execute a file, or enter a directory."""
    if account is None:
        return os.access(path, os.X_OK, effective_ids=True)
    # Asked as that user: mode bits alone do not tell (ACLs, directories above, read-only mounts).
    asked = subprocess.run(
        ["/bin/sh", "-c", 'test -x "$1"', "sh", path],
        user=account.uid,
        group=account.gid,
        extra_groups=account.groups,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        env={},
        check=False,
    )
    return asked.returncode == 0
