"""What tests of the local engine share: an engine, its session, and what it must not leave."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from wharfinger.engines.local import LocalEngine, identity_of_directory
from wharfinger.host.cgroups import find_hierarchies
from wharfinger.manager import actions as act
from wharfinger.manager import events as ev
from wharfinger.model.allocation import Allocation, Placement
from wharfinger.model.workload import Run, Workload, WorkloadType
from wharfinger.testing import EngineHarness, ShellPrograms
from wharfinger.testing.harness import Session

MEBIBYTE = 1024**2


def harness(directory: Path, **options: str | int | None) -> EngineHarness:
    def make_engine(state: Path) -> LocalEngine:
        return LocalEngine(state, **options)  # type: ignore[arg-type]

    return EngineHarness(directory, make_engine, ShellPrograms(directory))


@contextmanager
def session(directory: Path, **options: str | int | None) -> Iterator[Session]:
    """An engine on ``directory/state``; afterwards nothing of it may be left."""
    fds = names("/proc/self/fd")
    with harness(directory, **options).session() as opened:
        yield opened
    assert not names(directory / "state")
    assert not groups_of(directory)
    assert names("/proc/self/fd") == fds


def names(directory: Path | str) -> set[str]:
    """What is in a directory."""
    return {path.name for path in Path(directory).iterdir()}


def groups_of(directory: Path) -> set[Path]:
    """The cgroups of the engine on ``directory/state``; other managers may run beside us."""
    name = f"wharfinger-{identity_of_directory(directory / 'state')}"
    return {own for found in find_hierarchies() if (own := found.own / name).exists()}


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
