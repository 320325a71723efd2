"""ARQ's Figure 2: how long servers are busy, when one comes free, and how well waits are predicted.

Source: ARQ 3.2 and Figure 2, on 1,000 servers. One run at a fraction of that scale, at its load. Of
the highest pool there are the servers that were in it when work was placed on them (``pool``), and
the workloads that came through the queue of its class (``class``), of which ARQ has the account.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import inf
from statistics import fmean

import numpy as np

from wharfinger.core import events as ev
from wharfinger.experiments import physics_plots
from wharfinger.experiments.ground_truth import GroundTruthStudy, Panels, Picture, StudyFindings
from wharfinger.experiments.paragon_figures import MOST_WORKLOADS, OVERSUBSCRIBED
from wharfinger.experiments.plots import Curve, shares
from wharfinger.model.arrays import Array
from wharfinger.policies.admission.arq import Arq
from wharfinger.policies.admission.busy_periods import fitted
from wharfinger.policies.admission.slack import LEAST_WAIT
from wharfinger.simulator.run import RunSpec, Simulation, draw_in_turn
from wharfinger.simulator.scenario.build import scale_to
from wharfinger.simulator.scenario.scenario_files import load_scenario
from wharfinger.simulator.scenario.setup import Setup
from wharfinger.simulator.truth.physics.regimes import Regime

SCENARIO = OVERSUBSCRIBED
POLICY = "paragon[placement.sources=2]"
"""With the two runs against sources of interference that were published (2.4)."""
ADMISSION = "arq[ranges=quantile,platforms=any,late=first]"
"""So that all classes are used: with equal ranges nearly all workloads are in the two lowest."""
WITHIN_SECONDS, SHARE = 2700.0, 0.6
"""What the paper says of Figure 2a: that share of servers is freed within that time."""
TIMES: Array = np.linspace(0.0, 1200.0, 601)
"""Seconds since an arrival for which it is asked whether a server has come free."""
SLACK, OVER_SLACK = "slack_seconds", "wait_over_slack_probability"
BINS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
"""Edges of the bins of predicted probabilities."""
AROUND_10PCT = (0.05, 0.15)


@dataclass(frozen=True, slots=True)
class ClassEntry:
    """One workload comes into the queue of a class, from outside or from the class above.

    Attributes:
        at: The class; 0 is the lowest.
        predicted: Probability that it waits longer than its slack; ``None`` = nothing was known.
        free: Probability that one server of its class has come free after each of ``TIMES``.
        placed_at: Infinite = never.
    """

    name: str
    at: int
    time: float
    slack_seconds: float
    predicted: float | None
    free: Array
    placed_at: float = inf

    @property
    def waited(self) -> bool:
        """It was not placed at once."""
        return self.placed_at > self.time

    @property
    def over(self) -> bool:
        """It was not placed before its slack was over."""
        return self.placed_at - self.time >= self.slack_seconds - LEAST_WAIT


@dataclass(frozen=True, slots=True)
class BusyEnd:
    """The end of a busy period.

    Attributes:
        from_pool: Of its server when the workload was placed there.
        to_pool: Of its server at the end: the higher of before and after.
    """

    time: float
    seconds: float
    from_pool: int
    to_pool: int


@dataclass(frozen=True, slots=True)
class QueueWatch:
    """One run: all entries and ends, ascending, and what the accounts of queues have.

    ``of_highest`` and ``of_all`` are the busy periods in the accounts of the highest class, and of
    all queues.
    """

    highest: int
    entries: Sequence[ClassEntry]
    ends: Sequence[BusyEnd]
    of_highest: Sequence[float]
    of_all: Sequence[float]


class _Watched(Simulation):
    """Notes entries into classes with what was predicted, placements, and ends by pool."""

    def __init__(self, setup: Setup, spec: RunSpec) -> None:
        super().__init__(setup, spec)
        admission = self.manager.policy.admission
        assert isinstance(admission, Arq)
        self.arq = admission
        self.entries: list[ClassEntry] = []
        self.ends: list[BusyEnd] = []
        self.placed: dict[str, list[float]] = {}
        self._pools: dict[str, int] = {}
        self._busy: dict[str, tuple[str, int]] = {}

    def _log(self, now: float, events: Sequence[ev.Event]) -> None:
        super()._log(now, events)
        before = self._pools
        if any(isinstance(event, ev.WorkloadPlaced | ev.WorkloadFinished) for event in events):
            self._pools = self._pools_now()
        for event in events:
            match event:
                case ev.WorkloadQueued() | ev.WorkloadDiverted():
                    self._enter(now, event)
                case ev.WorkloadPlaced():
                    server = event.placements[0].server
                    self.placed.setdefault(event.name, []).append(now)
                    self._busy[event.name] = server, before.get(server, self._highest)
                case ev.WorkloadFinished():
                    self._end(now, event, before)

    @property
    def _highest(self) -> int:
        return self.arq.settings.queues - 1

    def _pools_now(self) -> dict[str, int]:
        view = self.manager.view
        pools = self.arq.pools(view)
        return {} if pools is None else dict(zip(view.names, pools.tolist(), strict=True))

    def _enter(self, now: float, event: ev.WorkloadQueued | ev.WorkloadDiverted) -> None:
        numbers = {} if event.decision is None else event.decision.numbers
        if "switch_seconds" not in numbers:
            return  # It may take any server.
        at = int(event.queue.removeprefix("class-")) - 1
        releases = self.arq.releases(event.queue, self.manager.admission_view(now))
        free = np.zeros(len(TIMES))
        if releases is not None:
            free = np.array(releases.within(TIMES.tolist(), 1))
        predicted = numbers.get(OVER_SLACK)
        self.entries.append(ClassEntry(event.name, at, now, numbers[SLACK], predicted, free))

    def _end(self, now: float, event: ev.WorkloadFinished, before: dict[str, int]) -> None:
        record = self.manager.record_of(event.key)
        if record is None or record.name not in self._busy:
            return
        server, pool = self._busy.pop(record.name)
        # What waits may have been placed there since, in the same turn.
        freed = max(before.get(server, 0), self._pools.get(server, 0))
        self.ends.append(BusyEnd(now, now - self.placed[record.name][-1], pool, freed))


def watch(
    regime: Regime,
    seed: int,
    workloads: int = MOST_WORKLOADS,
    scenario_name: str = SCENARIO,
    policy: str = POLICY,
) -> QueueWatch:
    """One run of a scenario, scaled to so many workloads at the same load."""
    scale = scale_to(load_scenario(scenario_name), workloads)
    spec = RunSpec(scenario_name, policy, ADMISSION, seed=seed, regime=regime.name, scale=scale)
    simulation = _Watched(draw_in_turn(spec), spec)
    simulation.run()
    arq, accounts = simulation.arq, simulation.manager.state.accounts
    entries = [
        replace(each, placed_at=_first_from(simulation.placed.get(each.name, ()), each.time))
        for each in simulation.entries
    ]
    count = arq.settings.queues
    highest = accounts.get(f"class-{count}")
    return QueueWatch(
        count - 1,
        entries,
        simulation.ends,
        highest.busy_seconds if highest else (),
        [seconds for each in accounts.values() for seconds in each.busy_seconds],
    )


def _first_from(times: Sequence[float], begin: float) -> float:
    return next((time for time in times if time >= begin), inf)


def look(regime: Regime, seed: int) -> StudyFindings:
    """One run."""
    return found(watch(regime, seed))


def found(seen: QueueWatch) -> StudyFindings:
    """Busy periods, servers that come free, and predicted waits, and what is drawn of the first."""
    of_pool = [each.seconds for each in seen.ends if each.from_pool == seen.highest]
    busy = {"pool": of_pool, "class": seen.of_highest, "all": seen.of_all}
    known = [each for each in seen.entries if each.predicted is not None]
    free = {
        of: _free_lines(entries, seen.ends)
        for of, entries in (
            ("highest", [each for each in known if each.at == seen.highest]),
            ("classes", known),
        )
        if entries
    }
    numbers = {
        **{f"busy/{of}/{name}": n for of, s in busy.items() for name, n in _busy_numbers(s)},
        **{f"free/{of}/{name}": n for of, lines in free.items() for name, n in _reached(lines)},
        **{f"wait/{name}": n for name, n in calibration(seen.entries)},
    }
    drawn: dict[str, Panels] = {
        "busy": {_TITLES[of]: _busy_lines(s) for of, s in busy.items() if s and of != "class"},
        "free": {_TITLES[of]: lines for of, lines in free.items()},
    }
    return StudyFindings(numbers, drawn)


_TITLES = {
    "pool": "Servers of the highest pool",
    "all": "All servers",
    "highest": "Arrivals in the highest class",
    "classes": "Arrivals in all classes",
}


def _busy_numbers(seconds: Sequence[float]) -> Iterator[tuple[str, float]]:
    yield "n", float(len(seconds))
    if seconds:
        fit = fitted(seconds)
        yield "by-2700s", float((np.asarray(seconds) <= WITHIN_SECONDS).mean())
        yield "seconds-60%", float(np.quantile(seconds, SHARE))
        yield "distance", fit.distance


def _busy_lines(seconds: Sequence[float]) -> dict[str, Curve]:
    ascending, fit = np.sort(np.asarray(seconds)), fitted(seconds)
    times = np.linspace(0.0, float(ascending[-1]), 201)
    return {
        "measured": (ascending, shares(ascending)),
        f"{fit.family}, fitted": (times, 100 * fit.below(times)),
    }


def _free_lines(entries: Sequence[ClassEntry], ends: Sequence[BusyEnd]) -> dict[str, Curve]:
    """Percentages of arrivals for which it has happened, after each of ``TIMES``."""
    by_pool = {at: [e.time for e in ends if e.to_pool >= at] for at in {e.at for e in entries}}
    until_end = [_after(by_pool[each.at], each.time) - each.time for each in entries]
    until_placed = [each.placed_at - each.time for each in entries]
    return {
        "predicted": (TIMES, 100 * np.mean([each.free for each in entries], axis=0)),
        "a server freed": (TIMES, _reached_by(until_end)),
        "placed": (TIMES, _reached_by(until_placed)),
    }


def _after(times: Sequence[float], begin: float) -> float:
    place = bisect_right(times, begin)
    return times[place] if place < len(times) else inf


def _reached_by(seconds: Sequence[float]) -> Array:
    return np.asarray(100 * np.searchsorted(np.sort(seconds), TIMES, side="right") / len(seconds))


def _reached(lines: Mapping[str, Curve]) -> Iterator[tuple[str, float]]:
    """After how many seconds each line reaches the share, where it does."""
    for name, (times, percent) in lines.items():
        if percent[-1] >= 100 * SHARE:
            key = name.replace(" ", "-")
            yield f"seconds-60%/{key}", float(times[int(np.argmax(percent >= 100 * SHARE))])


def calibration(entries: Sequence[ClassEntry]) -> Iterator[tuple[str, float]]:
    """How many wait longer than their slack, expected by what was predicted, and observed.

    ``waiting`` are those alone that were not placed at once.
    """
    known = [each for each in entries if each.predicted is not None]
    yield "unknown/n", float(len(entries) - len(known))
    groups = {"all": known, "waiting": [each for each in known if each.waited]}
    for name, group in groups.items():
        yield f"{name}/n", float(len(group))
        yield f"{name}/expected", sum(each.predicted or 0.0 for each in group)
        yield f"{name}/observed", float(sum(each.over for each in group))
    for low, high in (AROUND_10PCT, *pairwise(BINS)):
        among = [e for e in known if low <= (e.predicted or 0.0) < high]
        name = f"{low:g}-{high:g}"
        yield f"{name}/n", float(len(among))
        if among:
            yield f"{name}/predicted", fmean(each.predicted or 0.0 for each in among)
            yield f"{name}/observed", fmean(each.over for each in among)


def _families(first: StudyFindings) -> Iterator[str]:
    for panel, lines in first.drawn["busy"].items():
        yield f"{panel}, first seed: {', '.join(set(lines) - {'measured'})}."


ARQ_FIGURE2 = GroundTruthStudy(
    name="arq-figure2",
    about="how long servers are busy, when one comes free, and how well ARQ predicts waits",
    source="ARQ Figure 2, section 3.2",
    measure=look,
    pictures=(
        Picture(
            "busy",
            physics_plots.curves,
            "Busy periods",
            {
                "axes_labels": ("time since a placement (s)", "ended (%)"),
                "limits": (0.0, 100.0),
                "legend": "lower right",
            },
        ),
        Picture(
            "free",
            physics_plots.curves,
            "Until one server comes free",
            {
                "axes_labels": ("time since an arrival (s)", "arrivals (%)"),
                "limits": (0.0, 102.0),
                "legend": "lower right",
            },
        ),
    ),
    published={
        "busy/pool/by-2700s": SHARE,
        "busy/pool/seconds-60%": WITHIN_SECONDS,
        "free/highest/seconds-60%/predicted": 56.0,
    },
    units={
        "*seconds-60%*": "s",
        "busy/*/n": "busy periods",
        "wait/*/n": "workloads",
        "wait/all/*": "workloads",
        "wait/waiting/*": "workloads",
    },
    notes=(
        f"{POLICY} under {ADMISSION} on {SCENARIO}, scaled to at most {MOST_WORKLOADS} workloads.",
        (
            "busy/pool: servers that were in the highest pool when work was placed on them; class: "
            "the account of its queue; all: those of all queues, which ARQ fits while higher "
            "classes may always be taken."
        ),
        (
            "free: predicted, that one server comes free, from what ARQ knew at each arrival; "
            "freed, the next end in the pools that the arrival may take; placed, the arrival."
        ),
        (
            "wait: the probability that a wait exceeds the slack, as logged at each entry in a "
            "class, beside what came; waiting, of those alone that were not placed at once. A "
            "workload placed from any at the end of its slack exceeds it. Entries of which nothing "
            "was known are not counted."
        ),
        "The distance of busy periods from their own quantiles (empirical) is 0.",
    ),
    remarks=_families,
)
