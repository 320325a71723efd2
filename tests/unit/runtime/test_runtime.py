"""Events, then disk, then actions; and what happens when the disk says no."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from wharfinger.core import actions as act
from wharfinger.core.lifecycle import Phase
from wharfinger.core.pipeline import Core
from wharfinger.errors import (
    Conflict,
    InvalidInput,
    NotFound,
    OutOfSpace,
    Unavailable,
    WharfingerError,
)
from wharfinger.model.workload import ArrayMember, Reservation, Run, Workload, WorkloadType
from wharfinger.policies.registry import make_policy
from wharfinger.runtime.runtime import Retention, Runtime
from wharfinger.store.base import NewEntry
from wharfinger.store.sqlite import SqliteStore
from wharfinger.testing import FaultyEngine, MemoryCluster, MemoryEngine


class WatchedStore:
    """The real store; notes what is logged, and is full when told so."""

    def __init__(self, store: SqliteStore, order: list[str]) -> None:
        self._store = store
        self._order = order
        self.full = False

    def append(self, entries: Sequence[NewEntry], *, urgent: bool = False) -> int:
        if self.full:
            raise OutOfSpace("full for this test")
        last = self._store.append(entries, urgent=urgent)
        self._order.extend(entry.kind for entry in entries)
        return last

    def __getattr__(self, name: str):
        return getattr(self._store, name)


class WatchedEngine(MemoryEngine):
    """Notes what it is asked."""

    def __init__(self, cluster: MemoryCluster, order: list[str]) -> None:
        super().__init__(cluster)
        self._order = order

    def perform(self, action: act.Action) -> None:
        self._order.append(type(action).__name__)
        super().perform(action)


class Place:
    """A state directory and machines that outlive the runtimes on them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.order: list[str] = []
        self.cluster = MemoryCluster()
        self.now = 100.0
        self.opened: list[Runtime] = []

    def open(self, **retention: int) -> Runtime:
        self.store = WatchedStore(SqliteStore.open(self.folder), self.order)
        self.engine = FaultyEngine(lambda: WatchedEngine(self.cluster, self.order), None)
        runtime = Runtime(
            lambda state: Core(make_policy("least-loaded"), state=state),
            self.engine,
            self.store,
            lambda: self.now,
            retention=Retention(**retention),
        )
        runtime.start()
        self.opened.append(runtime)
        return runtime

    def crash(self) -> None:
        self.opened.pop()
        self.engine.close()
        self.store._store.close()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path / "state")
    yield place
    for runtime in place.opened:
        runtime.close()


def workload(name: str, *command: str) -> Workload:
    return Workload(name, WorkloadType.BATCH, Run(command))


def phase(runtime: Runtime, name: str) -> Phase:
    return runtime.manager.find(name).phase


def test_nothing_is_asked_before_it_is_logged(place: Place) -> None:
    runtime = place.open()
    runtime.submit([workload("a", "serve")])
    placed, started = place.order.index("WorkloadPlaced"), place.order.index("StartWorkload")
    assert placed < started


def test_what_can_not_run_here_is_refused_before_it_is_logged(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def check(_engine: WatchedEngine, checked: Workload) -> str:
        asked.append(checked.name)
        return "spec.run.command: no such program" if checked.run.command[0] == "foo" else ""

    monkeypatch.setattr(WatchedEngine, "check", check)
    runtime = place.open()
    before = list(place.order)
    with pytest.raises(InvalidInput, match=r"workload 'b': spec\.run\.command: no such program"):
        runtime.submit([workload("a", "serve"), workload("b", "foo")])
    assert place.order == before
    runtime.submit([workload("a", "serve")])
    asked.clear()
    members = [
        replace(workload(f"c-{index}", "serve"), array=ArrayMember("c", index)) for index in (1, 2)
    ]
    runtime.submit(members)
    assert asked == ["c-1"], "members of an array run the same"


def test_what_the_engine_says_is_taken_in(place: Place) -> None:
    runtime = place.open()
    runtime.submit([workload("a", "exit", "3")])
    assert phase(runtime, "a") is Phase.PLACED
    runtime.pump()
    assert phase(runtime, "a") is Phase.FAILED
    assert runtime.manager.find("a").exit_code == 3


def test_all_workloads_of_one_request_share_one_commit(place: Place) -> None:
    runtime = place.open()
    before = len(place.order)
    runtime.submit([workload(f"w{i}", "serve") for i in range(5)])
    first_action = place.order.index("StartWorkload")
    assert place.order[before:first_action].count("WorkloadSubmitted") == 5


def test_a_request_with_one_bad_workload_takes_none(place: Place) -> None:
    runtime = place.open()
    runtime.submit([workload("a", "serve")])
    with pytest.raises(Conflict):
        runtime.submit([workload("b", "serve"), workload("a", "another")])
    with pytest.raises(Conflict, match="stands 2 times"):
        runtime.submit([workload("b", "serve"), workload("b", "serve")])
    assert list(runtime.manager.state.workloads) == ["a"]


def test_the_same_request_again_is_acknowledged_and_changes_nothing(place: Place) -> None:
    runtime = place.open()
    assert [a.created for a in runtime.submit([workload("a", "serve")])] == [True]
    assert [a.created for a in runtime.submit([workload("a", "serve")])] == [False]
    assert place.order.count("WorkloadSubmitted") == 1


def test_a_full_disk_refuses_new_work_and_forgets_nothing_of_what_runs(place: Place) -> None:
    runtime = place.open()
    runtime.submit([workload("a", "serve")])
    runtime.pump()
    place.store.full = True
    with pytest.raises(OutOfSpace):
        runtime.submit([workload("b", "serve")])
    with pytest.raises(OutOfSpace):
        runtime.delete("a")
    assert list(runtime.manager.state.workloads) == ["a"]
    assert not runtime.manager.find("a").revoking
    (key,) = place.cluster.running()
    place.cluster.end(key, 7)
    runtime.pump()
    assert phase(runtime, "a") is Phase.RUNNING, "not before it is logged"
    assert runtime.wake_at() is not None
    place.store.full = False
    runtime.tick()
    assert phase(runtime, "a") is Phase.FAILED
    assert runtime.manager.find("a").exit_code == 7
    assert runtime.wake_at() is None


def test_after_a_fault_no_snapshot_holds_what_the_log_does_not(place: Place, monkeypatch) -> None:
    runtime = place.open()

    def fail(*_: object, **__: object) -> int:
        raise RuntimeError("a fault")

    monkeypatch.setattr(place.store, "append", fail)
    with pytest.raises(RuntimeError):
        runtime.submit([workload("a", "serve")])
    place.opened.pop().close()
    assert not place.open().manager.state.workloads


def test_a_core_that_can_not_be_put_back_does_not_go_on(place: Place, monkeypatch) -> None:
    runtime = place.open()

    def fail(*_: object, **__: object) -> object:
        raise Unavailable("the disk is gone")

    place.store.full = True
    monkeypatch.setattr(place.store, "latest_snapshot", fail, raising=False)
    with pytest.raises(WharfingerError, match="can't be read again") as caught:
        runtime.submit([workload("a", "serve")])
    assert not isinstance(caught.value, Unavailable), "the service would take it for a refusal"


def test_an_engine_that_can_not_begin_is_tried_again_later(place: Place) -> None:
    runtime = place.open()
    place.engine.refuse_next("no processes left")
    runtime.submit([workload("a", "serve")])
    assert runtime.wake_at() is not None
    runtime.pump()
    record = runtime.manager.find("a")
    assert (record.phase, record.start_failures) == (Phase.QUEUED, 1)
    due = runtime.wake_at()
    assert due is not None
    place.now = due
    runtime.tick()
    runtime.pump()
    assert phase(runtime, "a") is Phase.RUNNING


def test_a_start_that_was_taken_is_not_given_up_when_asking_again_fails(place: Place) -> None:
    """After a fault of the disk the core is put back, and asks again for what is not answered."""
    runtime = place.open()
    runtime.submit([workload("begins", "serve")])
    place.store.full = True
    with pytest.raises(OutOfSpace):
        runtime.delete("begins")
    place.store.full = False
    place.engine.refuse_next("no answer")
    runtime.submit([workload("other", "true")])
    for _ in range(10):
        place.now += 1
        runtime.tick()
        runtime.pump()
    assert phase(runtime, "begins") is Phase.RUNNING
    assert runtime.manager.find("begins").attempts == 1
    assert len(place.cluster.running()) == 1


def test_a_start_that_was_taken_is_not_begun_anew_when_it_has_ended(place: Place) -> None:
    runtime = place.open()
    runtime.submit([workload("short", "serve")])
    place.store.full = True
    with pytest.raises(OutOfSpace):
        runtime.delete("short")
    place.store.full = False
    place.engine.refuse_next("no answer")
    runtime.submit([workload("other", "serve")])
    key = runtime.manager.find("short").key
    place.cluster.end(key, 0)
    runtime.pump()
    assert runtime.delete("short") == "deleted"
    for _ in range(5):
        place.now += 1
        runtime.tick()
        runtime.pump()
    assert key not in place.cluster.running()


def test_a_stop_that_the_engine_can_not_begin_is_asked_for_again(place: Place) -> None:
    runtime = place.open()
    runtime.submit([workload("a", "serve")])
    runtime.pump()
    place.engine.refuse_next("no answer")
    runtime.stop("a")
    assert place.cluster.running()
    assert runtime.wake_at() == place.now + 1.0
    runtime.tick()
    runtime.pump()
    assert phase(runtime, "a") is Phase.REVOKED
    assert runtime.wake_at() is None


def test_a_successor_finds_what_runs_and_what_has_ended_meanwhile(place: Place) -> None:
    runtime = place.open(snapshot_every=5, keep_events=5)
    runtime.submit([workload(f"w{i}", "serve") for i in range(4)])
    runtime.pump()
    keys = place.cluster.running()
    place.crash()
    place.cluster.end(keys[0], 9)
    place.cluster.vanish(keys[1])
    successor = place.open()
    assert phase(successor, "w0") is Phase.FAILED
    assert successor.manager.find("w0").exit_code == 9
    assert phase(successor, "w1") is Phase.VANISHED
    assert [phase(successor, f"w{i}") for i in (2, 3)] == [Phase.RUNNING] * 2
    assert set(place.cluster.starts.values()) == {1}


def test_a_key_of_a_lost_part_of_the_log_is_not_given_out_again(place: Place) -> None:
    runtime = place.open()
    runtime.submit([workload("a", "serve")])
    (key,) = place.cluster.running()
    log = list(runtime.store.read())
    place.crash()
    kept = [e for e in log if e.kind not in ("WorkloadPlaced", "StartAccepted", "WorkloadStarted")]
    place.folder = place.folder.with_name("salvaged")
    with SqliteStore.open(place.folder) as store:
        store.append([NewEntry(e.time, e.kind, e.payload) for e in kept])
    (place.folder / "manager.head").unlink()
    successor = place.open()
    assert [e.kind for e in successor.store.read()].count("HistoryLost") == 1
    assert successor.manager.find("a").key != key
    assert successor.manager.state.strays == [key]


def test_a_deleted_workload_is_stopped_then_forgotten(place: Place) -> None:
    runtime = place.open()
    runtime.submit([workload("a", "serve")])
    runtime.pump()
    assert runtime.delete("a") == "stopping"
    assert runtime.delete("a") == "stopping", "asked twice, stopped once"
    runtime.pump()
    with pytest.raises(NotFound):
        runtime.manager.find("a")
    assert [run.phase for run in runtime.manager.state.history] == [Phase.REVOKED]
    assert place.order.count("StopWorkload") == 1
    assert place.order[-1] == "ForgetWorkload"


def test_an_update_that_changes_nothing_is_not_logged(place: Place) -> None:
    runtime = place.open()
    runtime.submit([workload("a", "serve")])
    runtime.update(workload("a", "serve"))
    assert "WorkloadUpdated" not in place.order


def test_a_refusal_that_a_later_start_has_made_up_for_starts_nothing_again(place: Place) -> None:
    """The engine refuses a start, and takes it when it is asked again in the same breath."""
    runtime = place.open()
    first, second = (
        Workload(name, WorkloadType.BATCH, Run(("serve",)), reservation=Reservation(4000, 2**20))
        for name in ("first", "second")
    )
    runtime.submit([first, second])
    runtime.pump()
    (running,) = place.cluster.running()
    # The next engine tells of an end, which makes room, and that it has told all: both ask.
    place.cluster.end(running)
    place.engine.crash()
    place.engine.refuse_next()
    for _ in range(4):
        runtime.pump()
        place.now += 5.0
        runtime.tick()
    (running,) = place.cluster.running()
    assert running.startswith("2-1-")
    assert runtime.manager.find("second").phase is Phase.RUNNING
