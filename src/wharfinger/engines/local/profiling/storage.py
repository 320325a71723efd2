"""Where a copy's writes go until they are thrown away, and how many they may be.

On the workload's own storage: elsewhere its I/O would cost something else than it costs.
"""

import os
from pathlib import Path

CAP_BYTES = 1 << 30
"""How much a copy may write before it is killed: this, or a tenth of the free space if less."""
FREE_SHARE = 10
PREFIX = ".wharfinger-profile-"


def choose_upper(working_directory: Path, own: Path, name: str) -> Path:
    """Where to make the directory of the upper layers; there is none yet.

    On the file system of the working directory: in our own directory if that is there, else in
    the highest directory of it that we may write to. Where there is none the program can't
    write there either, and our own directory does as well.

    Args:
        working_directory: The workload's.
        own: The directory of the plan's runs.
        name: The plan's key, for a directory outside of our own.
    """
    device = working_directory.stat().st_dev
    if own.stat().st_dev == device:
        return own / "upper"
    parents = [working_directory, *working_directory.parents]
    same = [path for path in parents if path.stat().st_dev == device]
    for path in reversed(same):
        if os.access(path, os.W_OK | os.X_OK):
            return path / f"{PREFIX}{name}"
    return own / "upper"


def cap(upper_base: Path, most_bytes: int) -> int:
    """How much may be written there, in bytes; at least 1."""
    status = os.statvfs(upper_base)
    return max(1, min(most_bytes, status.f_bavail * status.f_frsize // FREE_SHARE))
