"""Paragon's Figure 12: what profiling, classification, queueing and the search take of a run.

Source: Paragon (TOCS) Figure 12 and section 6.1. Shares are of a program's time alone on its best
platform. Profiling and queueing are simulated; classification and the search are the time that this
machine took for them.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean

import numpy as np

from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.experiments.ground_truth import GroundTruthStudy, Picture, StudyFindings
from wharfinger.experiments.paragon_decisions import MEDIUM
from wharfinger.experiments.paragon_plots import stacked
from wharfinger.simulator.results.outcome import JobOutcome
from wharfinger.simulator.run import RunSpec, Simulation, draw
from wharfinger.simulator.scenario.setup import Setup
from wharfinger.simulator.truth.physics.regimes import Regime

POLICY = "paragon[placement.sources=2]"
"""With the two runs against sources of interference that were published (2.4)."""
PARTS = {
    "training": "profiling",
    "classification": "classification",
    "queueing": "waiting",
    "search": "decisions",
}
"""The paper's names of what ``Timed`` tells apart."""
SHOWN = 10
"""Programs in the picture: those of every so many, by what they take in all."""


@dataclass(frozen=True, slots=True)
class Overheads:
    """Of one workload, seconds of each part, and alone on its best platform."""

    name: str
    seconds: Mapping[str, float]
    ideal_seconds: float

    def share(self, part: str) -> float:
        """Of its time alone."""
        return self.seconds[PARTS[part]] / self.ideal_seconds


class Timed(Simulation):
    """Notes by job for how long a copy of it ran, and how long it took to classify it."""

    def __init__(self, setup: Setup, spec: RunSpec) -> None:
        super().__init__(setup, spec)
        self.copied: dict[str, float] = {}
        self.classified: dict[str, float] = {}
        self._copies: dict[str, tuple[str, float]] = {}

    def _log(self, now: float, events: Sequence[ev.Event]) -> None:
        super()._log(now, events)
        for event in events:
            if isinstance(event, ev.ProfilingPlanned):
                self._copies[event.key] = event.name, now
            elif (
                isinstance(event, ev.ProfilingFinished | ev.ProfilingFailed)
                and event.key in self._copies
            ):
                name, began = self._copies.pop(event.key)
                self.copied[name] = self.copied.get(name, 0.0) + now - began

    def _classify(self, action: act.Action) -> None:
        began = time.perf_counter()
        super()._classify(action)
        assert isinstance(action, act.ClassifyWorkload)
        name = action.workload.name
        taken = time.perf_counter() - began
        self.classified[name] = self.classified.get(name, 0.0) + taken

    @cached_property
    def searched(self) -> dict[str, float]:
        """Seconds of placing it, by job, in all of the run."""
        searched: dict[str, float] = {}
        placement = self.placement
        for name, seconds in zip(placement.asked_for, placement.seconds, strict=True):
            searched[name] = searched.get(name, 0.0) + seconds
        return searched

    def seconds_of(self, fate: JobOutcome) -> dict[str, float]:
        """What profiling, classification and decisions took of one, its start, and waiting."""
        # A copy may run on beside the workload itself, and then nothing waits for it.
        profiling = min(self.copied.get(fate.name, 0.0), fate.wait_seconds)
        start = min(self.setup.costs.start_seconds, fate.wait_seconds - profiling)
        return {
            "profiling": profiling,
            "classification": self.classified.get(fate.name, 0.0),
            "decisions": self.searched.get(fate.name, 0.0),
            "start": start,
            "waiting": fate.wait_seconds - profiling - start,
        }


def timed(
    scenario: str,
    policy: str,
    regime: Regime,
    seed: int,
    workloads: int | None = None,
    scale: float = 1.0,
) -> Timed:
    """A run of a scenario, that is still to be made."""
    spec = RunSpec(
        scenario, policy, seed=seed, regime=regime.name, workloads=workloads, scale=scale
    )
    return Timed(draw(spec), spec)


def watch(
    regime: Regime, seed: int, workloads: int | None = None, scale: float = 1.0
) -> list[Overheads]:
    """Of each workload that ran to its end, in one run of the scenario."""
    simulation = timed(MEDIUM, POLICY, regime, seed, workloads, scale)
    return [
        Overheads(fate.name, simulation.seconds_of(fate), fate.ideal_seconds)
        for fate in simulation.run().ended
    ]


def look(
    regime: Regime, seed: int, workloads: int | None = None, scale: float = 1.0
) -> StudyFindings:
    """One run."""
    return found(watch(regime, seed, workloads, scale))


def found(of_all: Sequence[Overheads]) -> StudyFindings:
    """Means and 90th percentiles of the parts, and what is drawn."""
    numbers: dict[str, float] = {}
    for part in PARTS:
        shares = [each.share(part) for each in of_all]
        numbers[part] = fmean(shares)
        numbers[f"{part}/p90"] = float(np.percentile(shares, 90))
    ranked = sorted(of_all, key=lambda each: sum(map(each.share, PARTS)))
    shown = ranked[:: max(1, len(ranked) // SHOWN)]
    bars = {part: np.array([each.share(part) for each in shown]) for part in PARTS}
    names = [each.name for each in shown]
    return StudyFindings(numbers, {"overheads": {"parts": bars, "names": names}})


PARAGON_FIGURE12 = GroundTruthStudy(
    name="paragon-figure12",
    about="what profiling, classification, queueing and the search take of a workload's time",
    source="Paragon (TOCS) Figure 12, section 6.1",
    measure=look,
    scale=1.0,
    pictures=(
        Picture(
            "overheads",
            stacked,
            "Overheads of workloads, from the least to the most",
            {"ylabel": "% of its time alone"},
        ),
    ),
    published={
        "training": 0.012,
        "classification": 0.0009,
        "queueing": 0.015,
        "search": 0.001,
    },
    notes=(
        f"{POLICY} on {MEDIUM}. Shares of a program's time alone on its best platform.",
        (
            "Published for queueing and the search are upper bounds: less than 1.5% in all cases, "
            "less than 0.1% in most."
        ),
        "Classification and search are this machine's time for them, so that they depend on it.",
        (
            "Training is above the published where workloads are short: half end within minutes, "
            "and the runs of a copy take as long for all."
        ),
    ),
)
