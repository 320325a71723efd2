"""Whatever a profiled program does, and whoever dies over it, nothing of it is left."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support import wait_until
from tests.support.local import groups_of, names, session
from tests.support.profiling import (
    COUNTING,
    MARK,
    PLACES,
    PORT,
    UNTIDY,
    answered,
    ask,
    listens,
    measured,
    mounts,
)
from tests.support.sandboxes import AS_NOBODY, NOBODY, census
from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.engines.local import LocalEngine
from wharfinger.host.processes import children_of, descendants
from wharfinger.model.interference import SharedResource
from wharfinger.model.workload import Measure
from wharfinger.testing.harness import Session

MEBIBYTE = 1 << 20
FILLING = UNTIDY + "while True: open('full', 'ab').write(bytes(1 << 20))"
ENDING = UNTIDY + "time.sleep(0.2)"
FAILING = UNTIDY + "raise SystemExit('as was to be seen')"
LASTING = UNTIDY + COUNTING


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "work"
    made.mkdir()
    (made / "data").write_text("as it was")
    return made


@pytest.fixture
def profiler(tmp_path: Path, folder: Path) -> Iterator[Session]:
    """Afterwards there is no file, mount, port or process of a copy's, and no cgroup."""
    before, mounted = census(folder), mounts()
    with session(tmp_path) as opened:
        opened.deadline_seconds = 120.0
        if not opened.engine.capabilities.profiles:
            pytest.skip("no sandbox here")
        yield opened
        assert not names(tmp_path / "state")
    assert census(folder) == before
    # What other tests mount lies in folders of theirs.
    fresh = [line for line in mounts() if line not in mounted]
    assert not [line for line in fresh if str(tmp_path) in line or "/pytest-" not in line]
    assert not [place for place in PLACES if Path(place, MARK).exists()]
    assert not listens(PORT)


def engine_of(profiler: Session) -> LocalEngine:
    assert isinstance(profiler.engine, LocalEngine)
    return profiler.engine


def worker_of(profiler: Session) -> int:
    return engine_of(profiler)._profiling._plans["k"].process.pid


def await_copy(profiler: Session) -> int:
    """Wait until the program is at work; its supervisor's pid."""
    worker = worker_of(profiler)

    def found() -> int:
        for pid in children_of(worker):
            if len(descendants(pid)) >= 3:  # keeper, init, program
                return pid
        return 0

    profiler.wait_until(lambda: bool(found()), "the copy")
    return found()


def test_a_copy_that_ends(profiler: Session, folder: Path) -> None:
    found = measured(profiler, ask(profiler, ENDING, folder=folder, measure=Measure()))
    assert found.total == 1


def test_a_copy_that_fails(profiler: Session, folder: Path) -> None:
    profiler.perform(ask(profiler, FAILING, folder=folder))
    answer = answered(profiler, "k")
    assert isinstance(answer, ev.ProfilingFailed)
    assert "as was to be seen" in answer.reason


def test_a_copy_that_fills_its_disk(
    profiler: Session, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wharfinger.engines.local.profiling.client.CAP_BYTES", 8 * MEBIBYTE)
    profiler.perform(ask(profiler, FILLING, folder=folder, seconds=30))
    answer = answered(profiler, "k")
    assert isinstance(answer, ev.ProfilingFailed)
    assert "is the most" in answer.reason or "status" in answer.reason


def test_a_program_that_is_not_there(profiler: Session, folder: Path) -> None:
    action = ask(profiler, "", folder=folder)
    object.__setattr__(action.workload.run, "command", ("/no/such/program",))
    profiler.perform(action)
    answer = answered(profiler, "k")
    assert isinstance(answer, ev.ProfilingFailed)
    assert "/no/such/program" in answer.reason


def kill_worker(profiler: Session) -> None:
    os.kill(worker_of(profiler), signal.SIGKILL)


def kill_supervisor(profiler: Session) -> None:
    os.kill(await_copy(profiler), signal.SIGKILL)


def stop(profiler: Session) -> None:
    profiler.perform(act.StopWorkload("k", 10.0))


@pytest.mark.long
@pytest.mark.parametrize(
    ("interrupt", "reason"),
    [(stop, "stopped"), (kill_worker, "SIGKILL"), (kill_supervisor, "supervisor was killed")],
)
def test_a_copy_that_is_interrupted(
    profiler: Session, folder: Path, interrupt: Callable[[Session], None], reason: str
) -> None:
    action = ask(profiler, LASTING, SharedResource.INTEGER, folder=folder, seconds=60)
    profiler.perform(action)
    await_copy(profiler)
    interrupt(profiler)
    answer = answered(profiler, "k")
    assert isinstance(answer, ev.ProfilingFailed)
    assert reason in answer.reason


def test_the_end_of_the_engine_is_the_copys_end(profiler: Session, folder: Path) -> None:
    action = ask(profiler, LASTING, folder=folder, seconds=60)
    profiler.perform(action)
    supervisor = await_copy(profiler)
    profiler.reopen()
    wait_until(lambda: not Path(f"/proc/{supervisor}/exe").exists(), what="it is gone")
    assert not names(engine_of(profiler)._directory)


# --- a manager that is killed; and as an ordinary user ------------------------------------

MANAGER = """
import json, sys, time
from pathlib import Path
from wharfinger.engines.local import LocalEngine
from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.model.performance import Quantity
from wharfinger.model.profile import ProfilingPlan
from wharfinger.model.workload import Measure, Run, Workload, WorkloadType
folder, script, seconds = Path(sys.argv[1]), sys.argv[2], float(sys.argv[3])
engine = LocalEngine(folder / "state")
engine.open()
if not engine.capabilities.profiles:
    print("no sandbox", flush=True)
    sys.exit()
server = next(r.server.name for r in engine.poll() if isinstance(r, ev.ServerReported))
plan = ProfilingPlan(server, (1000,), 256 << 20, (), seconds)
run = Run((sys.executable, "-c", script), {}, str(folder / "work"))
measure = Measure(progress_regex=r"done=(\\d+)")
workload = Workload("w", WorkloadType.BATCH, run, measure=measure)
engine.perform(act.ProfileWorkload("k", workload, plan))
print(engine._profiling._plans["k"].process.pid, flush=True)
while True:
    for report in engine.poll(1.0):
        if isinstance(report, ev.ProfilingFinished):
            entries = report.measurements.performance[Quantity.RATE]
            print(json.dumps([entry.value for entry in entries.values()]))
            engine.close()
            sys.exit()
        if isinstance(report, ev.ProfilingFailed):
            sys.exit(report.reason)
"""


def manager(
    folder: Path, script: str, seconds: float, prefix: tuple[str, ...] = ()
) -> subprocess.Popen[str]:
    interpreter = sys.executable if not prefix else "/usr/bin/python3"
    root = Path(sys.modules["wharfinger"].__path__[0]).parent
    return subprocess.Popen(
        [*prefix, interpreter, "-c", MANAGER, str(folder), script, str(seconds)],
        env={**os.environ, "HOME": str(folder), "PYTHONPATH": str(root)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd="/",
    )


@pytest.mark.parametrize("with_worker", [False, True], ids=["alone", "and its profiler"])
def test_a_manager_that_is_killed(tmp_path: Path, folder: Path, with_worker: bool) -> None:
    """Its profiler clears away; where that is killed, too, the next engine does."""
    process = manager(tmp_path, LASTING, 60.0)
    assert process.stdout is not None and process.stderr is not None
    with process.stdout, process.stderr:
        word = process.stdout.readline().strip()
        if not word.isdigit():
            pytest.skip(word or process.stderr.read())
        worker = int(word)
        wait_until(lambda: any(len(descendants(pid)) >= 3 for pid in children_of(worker)))
        copies = descendants(worker)
        process.kill()
        if with_worker:
            os.kill(worker, signal.SIGKILL)
        process.wait()
    if with_worker:
        with session(tmp_path) as opened:
            opened.wait_until(lambda: not names(tmp_path / "state"), "an empty state")
    wait_until(lambda: not [pid for pid in copies if Path(f"/proc/{pid}/exe").exists()])
    wait_until(lambda: not names(tmp_path / "state"))
    with session(tmp_path):
        pass  # It removes the group of the dead one.
    assert not groups_of(tmp_path)
    assert names(folder) == {"data"}


@pytest.mark.root
def test_an_ordinary_user() -> None:
    """No root is needed where users may have namespaces."""
    home = Path(tempfile.mkdtemp(prefix="wharfinger-profiling-", dir="/var/tmp"))
    try:
        _profile_as_nobody(home)
    finally:
        shutil.rmtree(home)


def _profile_as_nobody(home: Path) -> None:
    folder = home / "work"
    folder.mkdir()
    (folder / "data").write_text("as it was")
    for path in (home, folder, folder / "data"):
        os.chown(path, NOBODY, NOBODY)
    before = census(folder)
    process = manager(home, LASTING, 2.0, AS_NOBODY)
    out, err = process.communicate(timeout=180)
    lines = out.splitlines()
    if process.returncode == 0 and len(lines) < 2:
        pytest.skip(out)
    if "ModuleNotFoundError" in err or "ImportError" in err or "Permission denied" in err:
        pytest.skip(f"no Python with our packages for others: {err.splitlines()[-1]}")
    assert process.returncode == 0, err
    assert json.loads(lines[1])[0] > 0
    assert census(folder) == before
    assert not names(home / "state")
    assert not [place for place in PLACES if Path(place, MARK).exists()]
