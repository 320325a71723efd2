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
    threads = Path(f"/proc/{parent or os.getpid()}/task").iterdir()
    pids = [int(pid) for thread in threads for pid in (thread / "children").read_text().split()]
    return [pid for pid in pids if Path(f"/proc/{pid}/comm").read_text().strip() == name[:15]]
