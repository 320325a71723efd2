"""Paragon's Table IV: phases of running workloads that are found, and false alarms.

Source: Paragon (TOCS) 3.4 and Table IV. Its cluster migrates virtual machines, so what is moved
here keeps its work, and a copy goes on from where its workload is. Performance is read every five
seconds, as a live manager does. One run looks for phases reactively, another pre-emptively, a third
not at all.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log
from statistics import fmean, harmonic_mean, median

import numpy as np

from wharfinger.core import events as ev
from wharfinger.core.tracking import ProbeCause
from wharfinger.experiments.arq_tables import LEAST_DEVIATION
from wharfinger.experiments.ground_truth import GroundTruthStudy, StudyFindings
from wharfinger.simulator.cluster.runs import PhaseChange
from wharfinger.simulator.results.outcome import Outcome
from wharfinger.simulator.run import RunSpec, Simulation, draw
from wharfinger.simulator.scenario.setup import Setup
from wharfinger.simulator.truth.physics.regimes import Regime

SCENARIO = "paragon-local-phases"
POLICY = "paragon"
EVERY_SECONDS = 5.0
SEEN = 0.05
"""Share by which performance has to change for a phase to show in it: what QoS tolerates."""
LEAST_SECONDS = 30.0
"""A phase that is over sooner is not counted: nothing that is done about it could pay."""
MODES: Mapping[str, str] = {
    "reactive": "phases.share=0.0",
    "pre-emptive": "phases.reactive=false",
    "both": "",
    "neither": "phases.share=0.0,phases.reactive=false",
}
_FOUND = "another phase"


@dataclass(frozen=True, slots=True)
class PhasesSeen:
    """One run: its outcome, the true changes of phase, and by job what was made of it.

    ``anew`` are reclassifications for being off its prediction; ``probes`` have when they were
    answered, and whether another phase was found, by scores or at all.
    """

    outcome: Outcome
    changes: Sequence[PhaseChange]
    alarms: Mapping[str, Sequence[float]]
    anew: Mapping[str, Sequence[float]]
    probes: Mapping[str, Sequence[tuple[float, bool, bool]]]


class _Watched(Simulation):
    """Notes by job when it was found in another phase, and what pre-emptive probes told."""

    def __init__(self, setup: Setup, spec: RunSpec) -> None:
        super().__init__(setup, spec)
        self.alarms: dict[str, list[float]] = {}
        self.anew: dict[str, list[float]] = {}
        self.probes: dict[str, list[tuple[float, bool, bool]]] = {}

    def _log(self, now: float, events: Sequence[ev.Event]) -> None:
        super()._log(now, events)
        found = {
            event.name: event.decision.message
            for event in events
            if isinstance(event, ev.ReclassificationPlanned) and _FOUND in event.decision.message
        }
        for event in events:
            if isinstance(event, ev.ReclassificationPlanned) and event.name not in found:
                self.anew.setdefault(event.name, []).append(now)
            elif isinstance(event, ev.ProbePlanned) and event.cause is ProbeCause.REACTIVE:
                self.alarms.setdefault(event.name, []).append(now)
            elif isinstance(event, ev.WorkloadProbed):
                record = self.manager.record_of(event.key)
                probe = record.probe if record else None
                if record and probe and probe.answer and probe.cause is ProbeCause.PREEMPTIVE:
                    why = found.get(record.name, "")
                    told = now, bool(why), any(kind in why for kind in ("tolerated", "caused"))
                    self.probes.setdefault(record.name, []).append(told)
        if not any(isinstance(event, ev.WorkloadProbed) for event in events):
            for name in found:
                self.alarms.setdefault(name, []).append(now)


def watch(
    regime: Regime,
    seed: int,
    settings: str,
    workloads: int | None = None,
    scale: float = 1.0,
    policy: str = POLICY,
) -> PhasesSeen:
    """One run of the scenario, with these settings of the policy."""
    told = f"{policy}[{settings}]" if settings else policy
    spec = RunSpec(SCENARIO, told, seed=seed, regime=regime.name, workloads=workloads, scale=scale)
    setup = draw(spec)
    setup = replace(
        setup,
        costs=replace(setup.costs, keeps_work=True),
        measuring=replace(setup.measuring, every_seconds=EVERY_SECONDS),
    )
    simulation = _Watched(setup, spec)
    outcome = simulation.run()
    changes = simulation.cluster.phase_changes
    alarms, anew = simulation.alarms, simulation.anew
    return PhasesSeen(outcome, changes, alarms, anew, simulation.probes)


def look(
    regime: Regime,
    seed: int,
    workloads: int | None = None,
    scale: float = 1.0,
    modes: Mapping[str, str] = MODES,
    policy: str = POLICY,
) -> StudyFindings:
    """All measurements of one population."""
    given = workloads, scale, policy
    seen = {mode: watch(regime, seed, own, *given) for mode, own in modes.items()}
    numbers = {
        **{f"reactive/{name}": n for name, n in reactive(seen["reactive"])},
        **{f"pre-emptive/{name}": n for name, n in preemptive(seen["pre-emptive"])},
        **{f"{mode}/{name}": n for mode, each in seen.items() for name, n in degradation(each)},
    }
    for mode, each in seen.items():
        summary = each.outcome.summary
        for name in ("performance_mean", "qos_kept_fraction"):
            if (value := summary.get(name)) is not None:
                numbers[f"{mode}/{name}"] = float(value)
    return StudyFindings(numbers)


def reactive(seen: PhasesSeen) -> Iterator[tuple[str, float]]:
    """What was found of the phases that show in performance, how soon, and what was none."""
    after: dict[tuple[str, int], float] = {(c.name, c.phase): c.time for c in seen.changes}
    ends = {fate.name: fate.ended_at or 0.0 for fate in seen.outcome.fates}
    found, by_level, seconds, slower = [], [], [], []
    for change in seen.changes:
        off = _shown(change)
        until = after.get((change.name, change.phase + 1), ends.get(change.name, change.time))
        if abs(off) < SEEN or until - change.time < LEAST_SECONDS:
            continue
        alarms = [at for at in seen.alarms.get(change.name, ()) if change.time <= at < until]
        anew = [at for at in seen.anew.get(change.name, ()) if change.time <= at < until]
        first = min([*alarms, *anew], default=None)
        found.append(float(first is not None))
        by_level.append(float(bool(alarms)))
        if off < 0:
            slower.append(found[-1])
        if first is not None:
            seconds.append(first - change.time)
    false = list(_false(seen, seen.alarms))
    names = {*seen.alarms, *seen.anew}
    all_of = {n: sorted((*seen.alarms.get(n, ()), *seen.anew.get(n, ()))) for n in sorted(names)}
    false_of_all = list(_false(seen, all_of))
    yield "phases", float(len(found))
    if found:
        yield "found", fmean(found)
        yield "found-by-level", fmean(by_level)
    if slower:
        yield "found-slower", fmean(slower)
    if seconds:
        yield "seconds", fmean(seconds)
        yield "seconds-median", median(seconds)
    if false:
        yield "alarms", float(len(false))
        yield "false-alarms", fmean(false)
    if false_of_all:
        yield "reclassified-without-phase", fmean(false_of_all)


def _shown(change: PhaseChange) -> float:
    """By how much performance changes as a phase begins, of the logarithm."""
    both = change.rate > 0 and change.rate_before > 0
    return log(change.rate / change.rate_before) if both else 0.0


def _false(seen: PhasesSeen, alarms: Mapping[str, Sequence[float]]) -> Iterator[float]:
    """Of each alarm of each job, whether it has entered no phase since the one before."""
    for name, times in alarms.items():
        changes, before = [c.time for c in seen.changes if c.name == name], 0
        for at in times:
            now = bisect_right(changes, at)
            yield float(now == before)
            before = now


def preemptive(seen: PhasesSeen) -> Iterator[tuple[str, float]]:
    """Of those sampled, what was found of phases since their scores were measured before.

    Phases that do not show in performance count neither as phases nor as none.
    """
    changed, scores, same, sampled = [], [], [], 0
    for name, probes in seen.probes.items():
        changes, before = [c for c in seen.changes if c.name == name], 0
        for at, found, by_scores in probes:
            now = bisect_right([c.time for c in changes], at)
            sampled += 1
            if now == before:
                same.append(float(found))
            elif any(abs(_shown(change)) >= SEEN for change in changes[before:now]):
                changed.append(float(found))
                scores.append(float(by_scores))
            before = now if found else before
    yield "sampled", float(sampled)
    yield "sampled-with-phases", float(len(changed))
    yield "sampled-without-phases", float(len(same))
    if changed:
        yield "found", fmean(changed)
        yield "found-by-scores", fmean(scores)
    if same:
        yield "false-alarms", fmean(same)


def degradation(seen: PhasesSeen) -> Iterator[tuple[str, float]]:
    """What neighbors took of the performance of those that ended and had phases."""
    names = {change.name for change in seen.changes}
    lost = [fate.interference_loss for fate in seen.outcome.ended if fate.name in names]
    if lost:
        yield "degradation-hmean", harmonic_mean([max(each, LEAST_DEVIATION) for each in lost])
        yield "degradation-p90", float(np.percentile(lost, 90))


PARAGON_TABLE4 = GroundTruthStudy(
    name="paragon-table4",
    about="phases of running workloads that are found, how soon, and false alarms",
    source="Paragon (TOCS) 3.4, Table IV",
    measure=look,
    scale=1.0,
    pictures=(),
    published={
        "reactive/found": 0.96,
        "reactive/seconds": 8.5,
        "pre-emptive/found": 0.75,
        "pre-emptive/false-alarms": 0.051,
        "reactive/degradation-hmean": 0.034,
        "reactive/degradation-p90": 0.056,
        "pre-emptive/degradation-hmean": 0.018,
        "pre-emptive/degradation-p90": 0.035,
    },
    units={
        "*/seconds*": "s",
        "*/phases": "phases",
        "*/alarms": "alarms",
        "*/sampled*": "workloads",
        "*": "fraction",
    },
    notes=(
        "Found reactively: by its own level, or since it is off its prediction.",
        "reclassified-without-phase counts both reasons; false-alarms those by level alone.",
        f"Phases counted change performance by at least {SEEN:.0%} and last {LEAST_SECONDS:g} s.",
        (
            "degradation: of performance, what neighbors take of those with phases; its harmonic "
            f"mean takes less than {LEAST_DEVIATION:.2%} for that much. Published: of the rate "
            "alone."
        ),
        "The published shares are of one snapshot of 30 programs.",
    ),
)
