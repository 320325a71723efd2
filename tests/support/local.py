"""What tests of the local engine share: an engine, its session, and what it must not leave."""

import gc
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest

from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.engines.local import LocalEngine, identity_of_directory
from wharfinger.host.cgroups import discover, find_hierarchies
from wharfinger.model.allocation import Allocation, Placement
from wharfinger.model.workload import Run, Workload, WorkloadType
from wharfinger.testing import EngineHarness, ShellPrograms
from wharfinger.testing.harness import Session

MEBIBYTE = 1024**2


def harness(directory: Path, **options: str | float | None) -> EngineHarness:
    def make_engine(state: Path) -> LocalEngine:
        return LocalEngine(state, **options)  # type: ignore[arg-type]

    return EngineHarness(directory, make_engine, ShellPrograms(directory))


@contextmanager
def session(directory: Path, **options: str | float | None) -> Iterator[Session]:
    """An engine on ``directory/state``; afterwards nothing of it may be left."""
    gc.collect()  # Else what earlier tests left may be closed, or its number given out, meanwhile.
    before = descriptors()
    with harness(directory, **options).trial() as opened:
        yield opened
    assert not names(directory / "state")
    assert not groups_of(directory)
    left = dict(descriptors().items() - before.items())
    assert not left, f"descriptors that were not open before: {left}"


def descriptors() -> dict[int, str]:
    """What this process has open, by number."""
    found = {}
    for number in map(int, names("/proc/self/fd")):
        with suppress(FileNotFoundError):  # That of the listing itself.
            found[number] = str(Path(f"/proc/self/fd/{number}").readlink())
    return found


def names(directory: Path | str) -> set[str]:
    """What is in a directory."""
    return {path.name for path in Path(directory).iterdir()}


def groups_of(directory: Path) -> set[Path]:
    """The cgroups of the engine on ``directory/state``; other managers may run beside us."""
    name = f"wharfinger-{identity_of_directory(directory / 'state')}"
    bases = (name, f"{name}-best-effort")
    own = {found.own / base for found in find_hierarchies() for base in bases}
    return {base for base in own if base.exists()}


def start(
    session: Session,
    key: str,
    script: str,
    *,
    cpu_millicpus: int = 1000,
    memory_bytes: int = 128 * MEBIBYTE,
    best_effort: bool = False,
    grace_seconds: float = 10.0,
    env: dict[str, str] | None = None,
) -> act.StartWorkload:
    """A start of a shell script on the session's first server."""
    run = Run(("/bin/sh", "-c", script), env or {}, "/", grace_seconds)
    kind = WorkloadType.BEST_EFFORT if best_effort else WorkloadType.SINGLE_NODE
    allocation = Allocation(0 if best_effort else cpu_millicpus, memory_bytes, best_effort)
    return act.StartWorkload(
        key, Workload(key, kind, run), (Placement(session.servers[0], allocation),)
    )


def started(session: Session, action: act.StartWorkload) -> int:
    """Start it and wait until it runs; its main process's pid."""
    session.perform(action)
    return int(session.wait_for(ev.WorkloadStarted, action.key).handle.removeprefix("pid "))


def finished(session: Session, key: str) -> ev.WorkloadFinished:
    return session.wait_for(ev.WorkloadFinished, key)


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def is_gone(pid: int) -> bool:
    """Ended; a zombie that init has not reaped yet does not run any more."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def without_loader(program: Path) -> Path:
    """An executable that can't be started, which shows only when it is."""
    data = bytearray(Path("/bin/true").read_bytes())
    place = data.index(b"/lib")
    data[place : place + 4] = b"/nil"
    program.write_bytes(data)
    program.chmod(0o755)
    return program


def take_cgroups_away(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From all engines that are opened from now on."""
    nothing = directory / "nothing-is-mounted"
    nothing.touch()
    find_nothing = partial(discover, cgroup_file=nothing, mountinfo_file=nothing)
    monkeypatch.setattr("wharfinger.engines.local.engine.discover", find_nothing)


def run_as_nobody(script: str) -> str:
    """What a Python script prints that runs as an ordinary user, on a folder of its own.

    Needs root. Skips where that user can't read this Python environment.
    """
    nobody = 65534
    folder = Path("/tmp") / f"wharfinger-test-{os.getpid()}"  # tmp_path is closed to others
    folder.mkdir()
    os.chown(folder, nobody, nobody)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", *arguments],
            check=False,
            capture_output=True,
            text=True,
            user=nobody,
            group=nobody,
            extra_groups=[],
            cwd="/",
        )

    try:
        try:
            readable = run("import wharfinger").returncode == 0
        except PermissionError:
            readable = False
        if not readable:
            pytest.skip("an ordinary user can't read this Python environment")
        done = run(script, str(folder))
        assert done.returncode == 0, done.stderr
        return done.stdout
    finally:
        shutil.rmtree(folder)
