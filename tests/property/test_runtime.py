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
from wharfinger.core.state import WorkloadRecord
from wharfinger.errors import Conflict, NotFound, OutOfSpace
from wharfinger.model.workload import (
    Reservation,
    Restart,
    RestartPolicy,
    Run,
    Workload,
    WorkloadType,
)
from wharfinger.policies.registry import make_policy
from wharfinger.runtime.requests import RequestOutcome
from wharfinger.runtime.runtime import Retention, Runtime
from wharfinger.store.base import NewEntry
from wharfinger.store.sqlite import SqliteStore
from wharfinger.testing import EngineFaults, FaultyEngine, MemoryCluster, MemoryEngine

NAMES = st.sampled_from([f"w{i}" for i in range(10)])
POLICIES = st.sampled_from([RestartPolicy.NEVER, *RestartPolicy])
COMMANDS = st.sampled_from([("true",), ("exit", "3"), ("sleep", "5"), ("serve",), ("missing",)])
RESTARTS = 3
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
        self.stopped: set[str] = set()
        self.starts_at_stop: dict[str, int] = {}
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

    @rule(
        name=NAMES,
        command=COMMANDS,
        cpu=st.sampled_from([500, 1500, 9000]),
        policy=POLICIES,
        once=st.booleans(),
        limit=st.sampled_from([None, 40.0]),
    )
    def submit(
        self,
        name: str,
        command: tuple[str, ...],
        cpu: int,
        policy: RestartPolicy,
        once: bool,
        limit: float | None,
    ) -> None:
        run = Run(command, restart=Restart(policy, RESTARTS), time_limit_seconds=limit)
        workload = Workload(name, WorkloadType.BATCH, run, reservation=Reservation(cpu, 2**20))
        before = self._record(name)
        try:
            [acknowledged] = self.runtime.submit([workload], once=once)
        except Conflict:
            assert name in self.acknowledged
        except OutOfSpace:
            assert self.store.full
        else:
            self.acknowledged[name] = workload
            record = self.runtime.manager.find(name)
            again = (RequestOutcome.RUNS_AGAIN, RequestOutcome.CREATED)
            assert before is None or not before.ended or not once or not acknowledged.created
            assert acknowledged.outcome not in again or record.workload == workload
            assert acknowledged.outcome in (*again, RequestOutcome.UNCHANGED) or (
                record.resubmitted == workload
            )
            if acknowledged.created:
                self.stopped.discard(name)

    @rule(name=NAMES)
    def stop(self, name: str) -> None:
        """Once that is acknowledged, it is started no more, whoever asks the engine again."""
        try:
            self.runtime.stop(name)
        except NotFound:
            assert name not in self.acknowledged
        except OutOfSpace:
            assert self.store.full
        else:
            self.stopped.add(name)

    @rule(name=NAMES)
    def restart(self, name: str) -> None:
        ended = (record := self._record(name)) is not None and record.ended
        try:
            self.runtime.restart(name)
        except (NotFound, Conflict, OutOfSpace):
            return
        if ended:
            self.stopped.discard(name)

    @rule(name=NAMES, resumes=st.booleans())
    def suspend(self, name: str, resumes: bool) -> None:
        try:
            (self.runtime.resume if resumes else self.runtime.suspend)(name)
        except (NotFound, Conflict, OutOfSpace):
            return

    def _record(self, name: str) -> WorkloadRecord | None:
        return self.runtime.manager.state.workloads.get(name)

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        try:
            self.runtime.delete(name)
            self.acknowledged.pop(name, None)
            self.stopped.discard(name)
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
    def nothing_is_started_after_its_stop_was_acknowledged(self) -> None:
        for name in list(self.starts_at_stop):
            if name not in self.stopped:
                del self.starts_at_stop[name]
        for name in self.stopped:
            uid = self.runtime.manager.find(name).uid
            starts = [key for key in self.cluster.starts if key.split("-")[0] == str(uid)]
            before = self.starts_at_stop.setdefault(name, len(starts))
            assert len(starts) <= before, f"{name} started after its stop: {starts}"

    @invariant()
    def nothing_is_restarted_more_often_than_its_user_allows(self) -> None:
        for record in self.runtime.manager.state.workloads.values():
            assert record.restarts_in_row <= RESTARTS

    @invariant()
    def at_most_one_start_of_each_workload_runs(self) -> None:
        """Nor of two runs of one name."""
        running = self.cluster.running()
        named = {}
        for record in self.runtime.manager.state.workloads.values():
            runs = (record, *record.previous)
            named.update({str(run.uid): record.name for run in runs})
        submissions = [key.split("-")[0] for key in running]
        names = [named.get(submission, submission) for submission in submissions]
        assert len(names) == len(set(names)), running

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
            alive = record.phase in (Phase.RUNNING, Phase.SUSPENDED)
            assert runs == alive, (record.name, record.phase)
            assert record.paused == (record.phase is Phase.SUSPENDED) or not alive, record.name
            assert record.ended or not record.revoking, record.name
            assert record.name not in self.stopped or record.ended, record.name
            assert not (record.ended and record.resubmitted), record.name
            if record.phase in (Phase.COMPLETED, Phase.FAILED) and record.starts:
                ended = record.exit_code is not None or record.signal is not None
                assert ended or record.reason == "start-failed", record


AnyFailure.TestCase.settings = settings(stateful_step_count=40)
test_any_failure = AnyFailure.TestCase
