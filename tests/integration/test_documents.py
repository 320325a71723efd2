"""What README and docs print can be typed: each command is run, in order, as it stands."""

import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.documents import (
    ROOT,
    UNTIL_IT_ANSWERS,
    Shell,
    Shown,
    fresh_copy,
    not_installed,
    shown_commands,
    stop_all,
)

PAGES = [
    ROOT / "README.md",
    *sorted(page for page in (ROOT / "docs").glob("*.md") if shown_commands(page.read_text())),
]
NOT_RUN = {
    "scripts/demo": "takes four minutes; test_demo.py runs it",
    "apt-get install": "needs root, and changes the machine",
    "python3 -m venv /opt": "needs root, and changes the machine",
    "/opt/wharfinger/bin/pip": "needs root, and changes the machine",
    "git pull": "needs a clone with a remote",
    "ssh ": "needs another machine",
    "wharfinger up --engine slurm": "needs a Slurm cluster; tests/integration/slurm has one",
    "wharfinger classify measure": "takes a quarter of an hour; test_known_measure.py runs it",
    "wharfinger classify evaluate --known": "takes minutes",
    "wharfinger classify evaluate MATRIX.csv": "needs a table of one's own",
    "wharfinger classify evaluate PAIRS.csv": "needs a table of one's own",
    "wharfinger classify predict KNOWN.csv": "needs a table of one's own",
    "wharfinger experiment run": "takes minutes, or needs tables that are not shipped",
    "wharfinger ibench run storage-bandwidth": "writes to the disk for long",
    "wharfinger ibench validate": "takes minutes, of a machine that does nothing else",
    "wharfinger pair": "needs profiles of one's own",
    "wharfinger profile --attach": "needs a workload that runs",
    "wharfinger profile --cpus": "takes minutes, or needs a program of one's own",
    "wharfinger profile --pid": "needs a process of one's own",
    "wharfinger simulate trace:": "needs a trace that is not shipped",
    "wharfinger simulate paragon": "takes minutes",
    "wharfinger simulate services": "takes minutes",
    "scripts/generate-known-docs": "takes minutes, and changes the documents",
    "wharfinger simulate synthetic --policy least-loaded --servers 900": "takes half a minute",
    "python -m benchmarks.": "takes minutes; test_benchmarks_begin runs each with --help",
}
"""Commands that begin so are not run, for this reason."""


def reason_not_to_run(command: str) -> str:
    return next((why for begin, why in NOT_RUN.items() if command.startswith(begin)), "")


def as_typed(command: str) -> str:
    """With an interrupt after some seconds where it would go on for ever."""
    words = shlex.split(command, comments=True)
    if {"-w", "--watch", "--follow", "-f"} & set(words[2:]) and words[1] in ("get", "logs"):
        return f"timeout --preserve-status --signal=INT 3 {command}"
    return command


@contextmanager
def reader(page: Path, tmp_path: Path) -> Iterator[Shell]:
    """A shell in a copy of the tree, with a home and a state of its own; all ends with it."""
    installs = page.name == "README.md"
    tree, home = fresh_copy(tmp_path)
    if not installs:
        (tree / "scripts" / "install").write_text("#!/bin/sh\n")
    shell = Shell(tree, {"HOME": str(home), **(not_installed() if installs else {})})
    try:
        yield shell
    finally:
        stop_all(home)
        shell.close()


def run_shown(shell: Shell, shown: Shown) -> None:
    status, printed = shell.run(as_typed(shown.command), timeout_seconds=1800)
    expected = 130 if as_typed(shown.command) != shown.command else 0
    assert status == expected, f"line {shown.line}: {shown.command}\n{printed}"
    if shown.command.startswith("wharfinger up"):
        status, printed = shell.run(UNTIL_IT_ANSWERS, 180)
        assert status == 0, printed


@pytest.mark.alone
@pytest.mark.long  # The README installs, which compiles everything once more.
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_run_as_printed(page: Path, tmp_path: Path) -> None:
    commands = shown_commands(page.read_text())
    assert commands
    runnable = [shown for shown in commands if not reason_not_to_run(shown.command)]
    if not runnable:
        return
    if page.name == "README.md" and not all(map(shutil.which, ("redis-server", "redis-benchmark"))):
        runnable = [shown for shown in runnable if "redis" not in shown.command]
    with reader(page, tmp_path) as shell:
        for shown in runnable:
            run_shown(shell, shown)


def test_what_is_not_run_is_printed_somewhere() -> None:
    printed = [shown.command for page in PAGES for shown in shown_commands(page.read_text())]
    assert [b for b in NOT_RUN if not any(c.startswith(b) for c in printed)] == []


def test_the_readme_shows_the_example_that_it_submits() -> None:
    manifest = (ROOT / "examples/redis.yaml").read_text()
    shown = manifest[manifest.index("apiVersion") :].strip()
    assert shown in (ROOT / "README.md").read_text()


@pytest.mark.parametrize("name", sorted(p.stem for p in (ROOT / "benchmarks").glob("[a-z]*.py")))
def test_benchmarks_begin(name: str) -> None:
    command = [sys.executable, "-m", f"benchmarks.{name}", "--help"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("usage:")
