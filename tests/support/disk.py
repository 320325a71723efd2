"""A disk of a known speed, which those in one control group share: a bottleneck of our own."""

import contextlib
import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support import wait_until

GROUPS = Path("/sys/fs/cgroup/blkio")
MEBIBYTE = 1 << 20
SHARED_MEMORY = Path("/dev/shm")


@dataclass(frozen=True, slots=True)
class SlowDisk:
    """A file system in memory, whose device a control group reads and writes at a limited rate.

    ``prefix`` before a command starts it in that group.
    """

    folder: Path
    prefix: tuple[str, ...]


@contextlib.contextmanager
def slow_disk(directory: Path, bytes_per_second: int, size_bytes: int) -> Iterator[SlowDisk]:
    """Needs root; skips where no device can be made, or its rate can't be limited."""
    image = SHARED_MEMORY / f"wharfinger-test-{os.getpid()}.disk"
    group = GROUPS / f"wharfinger-test-{os.getpid()}"
    folder = directory / "disk"
    with contextlib.ExitStack() as ends:
        ends.callback(image.unlink, missing_ok=True)
        try:
            with image.open("wb") as file:
                file.truncate(size_bytes)
            _run("mke2fs", "-q", "-F", "-t", "ext4", "-O", "^has_journal", str(image))
            device = _run("losetup", "--find", "--show", str(image)).strip()
            ends.callback(_run, "losetup", "--detach", device)
            folder.mkdir()
            _run("mount", device, str(folder))
            ends.callback(_undo, lambda: _run("umount", str(folder)))
            group.mkdir()
            ends.callback(_undo, group.rmdir)
            number = Path(device).stat().st_rdev
            limit = f"{os.major(number)}:{os.minor(number)} {bytes_per_second}"
            for way in ("read", "write"):
                (group / f"blkio.throttle.{way}_bps_device").write_text(limit)
        except (OSError, subprocess.CalledProcessError) as error:
            pytest.skip(f"no disk of our own here: {error}")
        entering = f'echo $$ > "{group}/cgroup.procs"; exec "$@"'
        yield SlowDisk(folder, ("/bin/sh", "-c", entering, "sh"))


def _undo(action: Callable[[], object]) -> None:
    """Once nobody is there any more who was told to end."""

    def is_done() -> bool:
        try:
            action()
        except (OSError, subprocess.CalledProcessError):
            return False
        return True

    wait_until(is_done, what="the disk is free")


def _run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
