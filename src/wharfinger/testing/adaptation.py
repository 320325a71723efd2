"""Holds adaptations to what the core relies on.

def test_my_adaptation():
check_adaptation(MyAdaptation())
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import Any

from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.core.codec import decode_state, encode_event, encode_state
from wharfinger.core.lifecycle import Phase
from wharfinger.core.pipeline import Core, Mode, Step
from wharfinger.core.seams.adaptation import (
    AdaptationPolicy,
    Migrate,
    PreemptFor,
    RaiseSources,
    Reallocate,
    Reclassify,
    Remedy,
    Residents,
    Resume,
    Suspend,
)
from wharfinger.core.seams.policy import Policy
from wharfinger.core.state import WorkloadRecord
from wharfinger.core.tracking import Tracked
from wharfinger.model.allocation import Allocation, cpu_of
from wharfinger.model.interference import OF_A_CORE, SharedResource
from wharfinger.model.performance import Quantity, Reading, Sample
from wharfinger.model.profile import Entry, Estimate, Measurements, Origin
from wharfinger.model.view import Capabilities
from wharfinger.model.workload import Reservation, Run, Target, Workload, WorkloadType
from wharfinger.policies.admission.fifo import Fifo
from wharfinger.policies.placement.resizing import Feedback
from wharfinger.testing.harness import Expecting
from wharfinger.testing.memory import make_server
from wharfinger.testing.policy import has_room

GIBIBYTE = 2**30
PERIOD_SECONDS = 5.0
_CARRIED_OUT = (
    ev.AllocationPlanned,
    ev.WorkloadSuspended,
    ev.WorkloadResumed,
    ev.WorkloadMigrated,
    ev.WorkloadPreempted,
)
_ALLOWED: dict[type, frozenset[Phase]] = {
    Reallocate: frozenset({Phase.RUNNING}),
    Suspend: frozenset({Phase.RUNNING}),
    Resume: frozenset({Phase.SUSPENDED}),
    Migrate: frozenset({Phase.RUNNING, Phase.SUSPENDED}),
    PreemptFor: frozenset({Phase.RUNNING}),
    Reclassify: frozenset({Phase.RUNNING, Phase.ADJUSTING}),
}
"""Phases in which a remedy can be carried out."""


def check_adaptation(adaptation: AdaptationPolicy, *, rounds: int = 6, periods: int = 20) -> None:
    """Hold an adaptation to what the core relies on.

    * The same measurement is tracked the same, and asking changes nothing.
    * The same cluster has the same remedies, also for a core that has just begun.
    * A remedy is about a workload that there is, in a phase in which it can be carried out.
    * A migration is of a workload that may be started again, and fits where it goes.
    * A core that only recommends is told no more than it can tell.

    Raises:
        AssertionError: The first promise that is not kept, with the seed of its cluster.
    """
    for seed in range(rounds):
        for mode in Mode:
            _Trial(adaptation, seed, mode).run(periods)


class _Trial:
    """One made-up cluster under the adaptation, at its mercy; it plays the engine."""

    def __init__(self, adaptation: AdaptationPolicy, seed: int, mode: Mode) -> None:
        self._random, self.mode, self.now = Random(seed), mode, 0.0
        self._expect = Expecting(f"seed {seed}, mode {mode}: {adaptation.name}")
        self._watched = _Watched(adaptation, self._expect)
        self._policy = Policy("made-up", Feedback(), Fifo(), self._watched)
        self.manager = Core(self._policy)
        self._levels: dict[str, float] = {}

    def run(self, periods: int) -> None:
        sources = tuple(self._random.sample(tuple(SharedResource), 4))
        able = Capabilities(measures=True, probes_running=True, clones=True, sources=sources)
        servers = [
            make_server(f"server{at}", cpu_millicpus=8000, memory_bytes=16 * GIBIBYTE)
            for at in range(self._random.randint(1, 4))
        ]
        self.handle(self.manager.started("n", "0", "made-up", able))
        for server in servers:
            self.handle(ev.ServerReported(server))
        self.handle(ev.EngineSynced((), tuple(server.name for server in servers)))
        for at in range(self._random.randint(2, 10)):
            self.handle(ev.WorkloadSubmitted(_workload(self._random, f"w{at}")))
        self.manager.mode = self.mode
        for _ in range(periods):
            self.now += PERIOD_SECONDS
            for server in servers:
                self._measure(server.name)
            if (due := self.manager.wake_at(self.now)) is not None and due <= self.now:
                self.handle(ev.TimePassed())

    def handle(self, event: ev.Report | ev.ClientRequest) -> None:
        """The core decides, and so would two that take over now; then the engine does all."""
        before = encode_state(self.manager.state)
        others = [self._fork(before).handle(self.now, event) for _ in range(2)]
        same = _logged(others[0]) == _logged(others[1])
        self._expect(same, "asked again, it answers otherwise")
        step = self.manager.handle(self.now, event)
        if self.mode is self.manager.mode is Mode.RECOMMEND:
            done = [event for event in step.events if isinstance(event, _CARRIED_OUT)]
            self._expect(not done, f"{done} by a core that only recommends")
        for action in step.actions:
            for report in _answers(action):
                self.handle(report)

    def _fork(self, state: bytes) -> Core:
        return Core(self._policy, state=decode_state(state), mode=self.manager.mode)

    def _measure(self, server: str) -> None:
        records = self.manager.residents_of(server)
        samples = tuple(
            self._sample(record)
            for record in records
            if record.phase in (Phase.RUNNING, Phase.ADJUSTING)
        )
        if samples:
            self.handle(ev.ServerMeasured(server, samples))

    def _sample(self, record: WorkloadRecord) -> Sample:
        """Performance that wanders; at times it says nothing."""
        level = self._levels.get(record.name, 1.0) * self._random.choice((0.8, 1.0, 1.0, 1.2))
        self._levels[record.name] = level = min(3.0, max(0.1, level))
        cpus = cpu_of(record.placements) / 1000
        used = Reading(cpus * self._random.choice((0.3, 0.98)), "made up", trusted=False)
        readings = {Quantity.CPU: used}
        if self._random.random() < 0.9:
            readings[Quantity.RATE] = Reading(100.0 * level, "made up", trusted=True)
        return Sample(record.key, readings)


class _Watched:
    """An adaptation, and a check of each answer."""

    def __init__(self, adaptation: AdaptationPolicy, expect: Expecting) -> None:
        self._adaptation, self._expect = adaptation, expect
        self.name, self.settings = adaptation.name, adaptation.settings

    def track(self, record: WorkloadRecord, now: float, slowdown: Estimate | None) -> Tracked:
        before = repr(record)
        tracked = self._adaptation.track(record, now, slowdown)
        again = self._adaptation.track(record, now, slowdown)
        self._expect(tracked == again, "tracked again, it is otherwise")
        self._expect(tracked.name == record.name, f"it tracks {tracked.name}")
        self._expect(repr(record) == before, f"tracking has changed {record.name}")
        return tracked

    def measured(self, record: WorkloadRecord, platform: str = "") -> Measurements | None:
        return self._adaptation.measured(record, platform)

    def wake_at(self, now: float, cluster: Residents) -> float | None:
        before = encode_state(cluster.state)
        due = self._adaptation.wake_at(now, cluster)
        self._expect(encode_state(cluster.state) == before, "wake_at changes something")
        return due

    def remedies(self, now: float, event: ev.Event, cluster: Residents) -> Iterator[Remedy]:
        before = encode_state(cluster.state)
        first = next(iter(self._adaptation.remedies(now, event, cluster)), None)
        self._expect(encode_state(cluster.state) == before, "asking changes something")
        remedies = self._adaptation.remedies(now, event, cluster)
        for at, remedy in enumerate(remedies):
            self._expect(at > 0 or remedy == first, f"asked again, it wants {remedy}")
            _check_remedy(remedy, cluster, Expecting(f"{self._expect.context}: {remedy}"))
            yield remedy


def _check_remedy(remedy: Remedy, cluster: Residents, expect: Expecting) -> None:
    record = cluster.state.workloads.get(remedy.name)
    expect(record is not None, f"there is no {remedy.name}")
    expect(bool(remedy.decision.message), "no message")
    if record is None:
        return
    allowed = _ALLOWED.get(type(remedy))
    expect(allowed is None or record.phase in allowed, f"it is {record.phase}")
    if isinstance(remedy, Suspend):
        expect(remedy.suspended_for in cluster.state.workloads, "for none that there is")
    if isinstance(remedy, RaiseSources):
        able = set(cluster.state.capabilities.sources)
        expect(set(remedy.sources) <= able, f"the engine has {', '.join(sorted(able))}")
        beyond = set(remedy.sources) - OF_A_CORE
        is_alone = bool(remedy.placements) or not cluster.neighbors(record)
        expect(is_alone or not beyond, f"its neighbors feel {', '.join(sorted(beyond))}")
    if isinstance(remedy, Migrate):
        restartable = record.workload.run.restartable
        expect(restartable, "it must not be started again")
        expect(_fits(remedy, record, cluster), "it does not fit there")


def _fits(remedy: Migrate, record: WorkloadRecord, cluster: Residents) -> bool:
    """Whether its servers accept work and have room, what it holds there itself left out."""
    view = cluster.view()
    own = {placement.server: placement.allocation for placement in record.placements}
    for placement in remedy.placements:
        if placement.server not in cluster.state.servers:
            return False
        row, held = view.row(placement.server), own.get(placement.server, Allocation(0, 0))
        if not view.accepting[row] or not has_room(view, row, placement.allocation, held):
            return False
    return True


def _logged(step: Step) -> list[tuple[str, bytes]]:
    return [encode_event(event) for event in step.events]


def _answers(action: act.Action) -> Sequence[ev.Report]:
    match action:
        case act.StartWorkload(key=key):
            return ev.StartAccepted(key), ev.WorkloadStarted(key, "made up")
        case act.ResizeAllocation(key=key, placements=placements):
            return (ev.AllocationResized(key, placements),)
        case act.StopWorkload(key=key):
            return (ev.WorkloadFinished(key, None, 15, "killed"),)
        case act.ProbeWorkload(key=key, number=number, plan=plan):
            scores = {source: Entry(50.0, 5.0, origin=Origin.OBSERVED) for source in plan.sources}
            return (ev.WorkloadProbed(key, number, Measurements(tolerated=scores)),)
    return ()


def _workload(random: Random, name: str) -> Workload:
    kind = random.choice((WorkloadType.BATCH, WorkloadType.BATCH, WorkloadType.BEST_EFFORT))
    run = Run(("true",), restartable=random.random() < 0.5)
    stated: dict[str, Any] = {"reservation": Reservation(random.choice((500, 2000)), GIBIBYTE)}
    workload = Workload(name, kind, run, **stated)
    if kind is WorkloadType.BEST_EFFORT:
        return workload
    return replace(workload, target=Target(rate_per_second=100.0))
