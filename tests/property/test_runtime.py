"""The runtime loses and doubles nothing, whatever fails: engine, disk, itself.

A real store on disk, an engine that fails by chance, a disk that is full at times, and a
manager that dies between any two calls.
"""

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from random import Random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from wharfinger.core.lifecycle import Phase
from wharfinger.core.pipeline import Core
from wharfinger.errors import Conflict, NotFound, OutOfSpace
from wharfinger.model.workload import Reservation, Run, Workload, WorkloadType
from wharfinger.policies.registry import make_policy
from wharfinger.runtime.runtime import Retention, Runtime
from wharfinger.store.base import NewEntry
from wharfinger.store.sqlite import SqliteStore
from wharfinger.testing import EngineFaults, FaultyEngine, MemoryCluster, MemoryEngine

NAMES = st.sampled_from([f"w{i}" for i in range(10)])
COMMANDS = st.sampled_from([("true",), ("exit", "3"), ("sleep", "5"), ("serve",), ("missing",)])
FAULTS = EngineFaults(delay=0.2, duplicate=0.2, reorder=0.2, refuse=0.1, crash=0.1)


class ShortOfRoom:
    """A store whose disk is full when it is told so; everything else is the real one's."""

    def __init__(self, store: SqliteStore) -> None:
        self._store = store
        self.full = False

    def append(self, entries: Sequence[NewEntry], *, urgent: bool = False) -> int:
        if self.full:
            raise OutOfSpace("full for this test")
        return self._store.append(entries, urgent=urgent)

    def __getattr__(self, name: str):
        return getattr(self._store, name)


class AnyFailure(RuleBasedStateMachine):
    """Users, programs and failures in any order."""

    @initialize(seed=st.integers(0, 2**32))
    def begin(self, seed: int) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="wharfinger-test-"))
        self.now = 1000.0
        self.cluster = MemoryCluster()
        self.random = Random(seed)
        self.acknowledged: dict[str, Workload] = {}
        self.runtime = self._open()

    def _open(self) -> Runtime:
        self.store = ShortOfRoom(SqliteStore.open(self.folder))
        self.engine = FaultyEngine(lambda: MemoryEngine(self.cluster), self.random, FAULTS)
        runtime = Runtime(
            lambda state: Core(make_policy("least-loaded"), state=state),
            self.engine,
            self.store,
            lambda: self.now,
            retention=Retention(snapshot_every=25, keep_events=10),
        )
        runtime.start()
        return runtime

    # --- users ---

    @rule(name=NAMES, command=COMMANDS, cpu=st.sampled_from([500, 1500, 9000]))
    def submit(self, name: str, command: tuple[str, ...], cpu: int) -> None:
        workload = Workload(
            name, WorkloadType.BATCH, Run(command), reservation=Reservation(cpu, 2**20)
        )
        try:
            self.runtime.submit([workload])
        except Conflict:
            assert name in self.acknowledged
        except OutOfSpace:
            assert self.store.full
        else:
            self.acknowledged[name] = workload

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        try:
            if self.runtime.delete(name) == "deleted":
                del self.acknowledged[name]
        except NotFound:
            assert name not in self.acknowledged
        except OutOfSpace:
            assert self.store.full

    # --- the world ---

    @rule()
    def pump(self) -> None:
        self.runtime.pump()

    @rule(seconds=st.floats(0.1, 30))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        self.cluster.advance(seconds)
        due = self.runtime.wake_at()
        if due is not None and due <= self.now and not self.store.full:
            self.runtime.tick()

    @rule(code=st.sampled_from([0, 7]))
    def something_ends(self, code: int) -> None:
        for key in self.cluster.running()[:1]:
            self.cluster.end(key, code)

    @rule(full=st.booleans())
    def disk(self, full: bool) -> None:
        self.store.full = full

    @rule(torn=st.booleans())
    def manager_dies(self, torn: bool) -> None:
        """With ``torn``, in the middle of an action, when the log is ahead of the engine."""
        if torn:
            self.engine.refuse_next("died before it could act")
        self.store._store.close()
        self.engine.close()
        self.runtime = self._open()

    # --- what always holds ---

    @invariant()
    def nothing_acknowledged_is_lost(self) -> None:
        assert set(self.acknowledged) <= set(self.runtime.manager.state.workloads)

    @invariant()
    def nothing_is_started_twice(self) -> None:
        assert all(count == 1 for count in self.cluster.starts.values())

    @invariant()
    def at_most_one_start_of_each_workload_runs(self) -> None:
        running = self.cluster.running()
        submissions = [key.split("-")[0] for key in running]
        assert len(submissions) == len(set(submissions)), running

    def teardown(self) -> None:
        if not hasattr(self, "runtime"):
            return
        try:
            self._all_ends_well()
        finally:
            self.store._store.close()
            self.engine.close()
            shutil.rmtree(self.folder)

    def _all_ends_well(self) -> None:
        """With the failures over, what the manager says and what the world is agree."""
        self.store.full = False
        self.engine.faults = EngineFaults()
        self.engine.crash()
        for _ in range(60):
            self.now += 61
            self.runtime.tick()
            self.runtime.pump()
        for record in self.runtime.manager.state.workloads.values():
            runs = record.key in self.cluster.running()
            assert runs == (record.phase is Phase.RUNNING), (record.name, record.phase)
            if record.phase in (Phase.COMPLETED, Phase.FAILED) and record.starts:
                assert record.exit_code is not None


AnyFailure.TestCase.settings = settings(stateful_step_count=40)
test_any_failure = AnyFailure.TestCase
