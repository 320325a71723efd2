"""Files that appear whole or not at all, and descriptors that are closed."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from wharfinger.errors import InvalidInput


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


def check_output(option: str, given: str) -> Path:
    """The file that an option names for results, links resolved; called before the work.

    Raises:
        InvalidInput: Nothing could be written there.
    """
    path, why = Path(given).resolve(), ""
    if not given or path.is_dir():
        why = "that is a directory; name a file"
    elif Path(given).exists() and not path.is_file():
        why = "that is no file; name one"
    elif not path.parent.is_dir():
        why = f"there is no directory {path.parent}; make it, or name another"
    elif not os.access(path if path.exists() else path.parent, os.W_OK):
        why = "it may not be written; name another"
    if why:
        raise InvalidInput(f"{option} {given!r}: {why}")
    return path


def write_whole(path: Path, data: bytes) -> None:
    """Replace a file durably: readers, also after a crash, have the old or the new one.

    A link is replaced, not its target: others may write to the directory.
    """
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
