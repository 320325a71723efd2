"""The sources of interference as programs, with their input held open."""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from wharfinger.host.binaries import ibench_path


@contextmanager
def program(*argv: object) -> Iterator[subprocess.Popen[str]]:
    """The program itself, with its input held open."""
    child = subprocess.Popen(
        [str(ibench_path()), *map(str, argv)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        yield child
    finally:
        child.kill()
        child.communicate()


def lines_of(*argv: object) -> list[dict[str, object]]:
    with program(*argv) as child:
        assert child.stdout is not None
        lines = [json.loads(line) for line in child.stdout]
        assert child.wait() == 0
    return lines


def children_named(name: str, parent: int | None = None) -> list[int]:
    pids: list[int] = []
    for thread in Path(f"/proc/{parent or os.getpid()}/task").iterdir():
        pids += map(int, _read(thread / "children").split())
    return [pid for pid in pids if _read(Path(f"/proc/{pid}/comm")).strip() == name[:15]]


def _read(file: Path) -> str:
    """Of a thread or a process, which may have ended meanwhile: then nothing."""
    try:
        return file.read_text()
    except OSError:
        return ""
