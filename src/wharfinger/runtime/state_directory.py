"""The directory of a manager's state, closed to other users and locked by one manager.

The kernel drops the lock when the process dies, however it dies, so a dead manager's directory can
be taken over at once.
"""

import fcntl
import os
import stat
from pathlib import Path

from wharfinger.errors import Conflict, InvalidInput

ENVIRONMENT_VARIABLE = "WHARFINGER_STATE"


def default_state_directory() -> Path:
    """``$WHARFINGER_STATE``, else ``wharfinger`` in the user's XDG state folder."""
    given = os.environ.get(ENVIRONMENT_VARIABLE)
    if given:
        return Path(given)
    base = os.environ.get("XDG_STATE_HOME", "")
    if not base.startswith("/"):
        base = "~/.local/state"  # the XDG specification: a relative one is no base
    return Path(base).expanduser() / "wharfinger"


class StateDirectory:
    """A state directory that exists, is ours and is closed to others.

    Raises:
        InvalidInput: It can't be made, or belongs to another user.
    """

    def __init__(self, path: Path) -> None:
        self.path = Path(path).absolute()
        self._lock: int | None = None
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._take(self.path.stat())
        except OSError as error:
            raise InvalidInput(
                f"--state: {self.path}: {error.strerror}; name a directory that can be made"
            ) from error

    def _take(self, status: os.stat_result) -> None:
        """Check that it is ours, and was made for this: no other files are closed off."""
        if not stat.S_ISDIR(status.st_mode):
            raise InvalidInput(f"--state: {self.path} is not a directory; name another")
        if status.st_uid != os.geteuid():
            raise InvalidInput(
                f"--state: {self.path} belongs to uid {status.st_uid}, not to you; name another"
            )
        names = {entry.name for entry in os.scandir(self.path)}
        if status.st_mode & stat.S_ISVTX or (names and not names & {"lock", "manager.db"}):
            raise InvalidInput(
                f"--state: {self.path} holds other things than a manager's state; "
                "name a directory that is empty or not there yet"
            )
        if stat.S_IMODE(status.st_mode) & 0o077:
            self.path.chmod(0o700)

    @property
    def socket(self) -> Path:
        """Where the manager listens."""
        return self.path / "socket"

    @property
    def runs(self) -> Path:
        """Where engines keep what they must find again, workloads' output included."""
        return self.path / "runs"

    def lock(self) -> None:
        """Take the directory for this process, until it unlocks it or dies.

        Raises:
            Conflict: A live manager has it.
            InvalidInput: Nothing can be written there.
        """
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            lock = os.open(self.path / "lock", flags, 0o600)
        except OSError as error:
            raise InvalidInput(
                f"--state: {self.path / 'lock'}: {error.strerror}; "
                "name a directory that can be written to"
            ) from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(lock, 32).decode(errors="replace").strip() or "?"
            os.close(lock)
            raise Conflict(
                f"a manager (pid {holder}) already runs on {self.path}; "
                "stop it, or give --state another directory"
            ) from None
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
        self._lock = lock

    def unlock(self) -> None:
        """Release the directory."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
