"""Files that appear whole or not at all, and descriptors that are closed."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def closing_fd(fd: int) -> Iterator[int]:
    """The descriptor, closed at the end."""
    try:
        yield fd
    finally:
        os.close(fd)


def sync_directory(directory: Path) -> None:
    """Make the names in a directory durable."""
    with closing_fd(os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)) as descriptor:
        os.fsync(descriptor)


def write_whole(path: Path, data: bytes) -> None:
    """Replace a file durably: readers, also after a crash, have the old or the new one."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    sync_directory(path.parent)
