"""How much room a disk has left, and how large a file may grow.

Called by the local engine, which admits nothing new below a floor of free disk, and by whoever
must explain a write that failed for want of room.
"""

import os
import resource
from pathlib import Path

from wharfinger.errors import EngineFault


def free_bytes(path: Path) -> int:
    """What an ordinary process may still write on the file system of ``path``.

    Blocks kept back for root are not counted, also when we are root: workloads and the manager's
    log should not eat the system's last reserve.

    Raises:
        EngineFault: The path can't be looked at.
    """
    try:
        status = os.statvfs(path)
    except OSError as error:
        raise EngineFault(f"cannot read the free disk of {path}: {error.strerror}") from error
    return status.f_bavail * status.f_frsize


def fsize_limit_bytes() -> int | None:
    """The largest file this process may write (``ulimit -f``); ``None`` = no limit."""
    soft, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    return None if soft == resource.RLIM_INFINITY else soft
