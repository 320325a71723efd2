"""Quasar's overheads: what profiling, classification, decisions and moves take, and waiting.

Source: Quasar 6.5: 4.1% of the execution time on average, up to 9% for short batch workloads; no
waiting for oversubscription. Shares here are of the time from submission to the end. Profiling,
starts, moves and waiting are simulated; classification and decisions are the time that this machine
took for them, which the simulated time does not have.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from wharfinger.experiments.ground_truth import GroundTruthStudy, Picture, StudyFindings
from wharfinger.experiments.paragon_figure12 import Timed, timed
from wharfinger.experiments.paragon_plots import stacked
from wharfinger.experiments.quasar_figures import EC2, QUASAR
from wharfinger.model.workload import WorkloadType
from wharfinger.simulator.policies import ORACLE
from wharfinger.simulator.results.outcome import JobOutcome, Outcome
from wharfinger.simulator.truth.physics.regimes import Regime

OVERHEAD = ("profiling", "classification", "decisions", "moves")
"""What the published number has."""
PARTS = (*OVERHEAD, "waiting")
SHORT_SECONDS = 300.0
"""Of a short job, alone on its best platform."""
SERVICES, SHORT, LONG = "services", "short jobs", "longer jobs"


@dataclass(frozen=True, slots=True)
class Shares:
    """Of the time of one workload from its submission to its end."""

    group: str
    of: Mapping[str, float]

    @property
    def overhead(self) -> float:
        """Without waiting."""
        return sum(self.of[part] for part in OVERHEAD)


def shares_of(fate: JobOutcome, simulation: Timed) -> Shares | None:
    """The parts of one that ran; ``None`` = it did not, or failed."""
    if fate.type == WorkloadType.BEST_EFFORT or not fate.platform or fate.performance <= 0:
        return None
    job = simulation.cluster.jobs[fate.name]
    ended = simulation.loop.now if fate.ended_at is None else fate.ended_at
    seconds = ended - fate.submitted_at
    if job.is_service:
        seconds, group = min(seconds, job.lifetime_seconds), SERVICES
    else:
        group = SHORT if fate.performance * seconds < SHORT_SECONDS else LONG
    took = simulation.seconds_of(fate)
    took["moves"] = took["start"] + max(0.0, fate.overhead * seconds - fate.wait_seconds)
    return Shares(group, {part: took[part] / seconds for part in PARTS})


def look(
    regime: Regime, seed: int, workloads: int | None = None, scale: float = 1.0
) -> StudyFindings:
    """Two runs, of the policy and of the oracle."""
    simulation = timed(EC2, QUASAR, regime, seed, workloads, scale)
    outcome = simulation.run()
    each = [shares_of(fate, simulation) for fate in outcome.fates]
    best = timed(EC2, ORACLE, regime, seed, workloads, scale).run()
    return found([one for one in each if one is not None], outcome, best)


def found(of_all: Sequence[Shares], outcome: Outcome, best: Outcome) -> StudyFindings:
    """Means by part and by group, and what is drawn."""
    numbers = {part: fmean(one.of[part] for one in of_all) for part in PARTS}
    numbers["overhead"] = fmean(one.overhead for one in of_all)
    for name, run in (("all-of-it", outcome), ("oracle/all-of-it", best)):
        if (value := run.summary.get("overhead_fraction_mean")) is not None:
            numbers[name] = float(value)
    bars: dict[str, list[float]] = {part: [] for part in OVERHEAD}
    names = []
    for group in (SHORT, LONG, SERVICES):
        own = [one for one in of_all if one.group == group]
        if not own:
            continue
        key = group.replace(" ", "-")
        numbers[f"{key}/overhead"] = fmean(one.overhead for one in own)
        numbers[f"{key}/overhead-p90"] = float(np.percentile([one.overhead for one in own], 90))
        numbers[f"{key}/waiting"] = fmean(one.of["waiting"] for one in own)
        names.append(group)
        for part, values in bars.items():
            values.append(fmean(one.of[part] for one in own))
    parts = {part: np.array(values) for part, values in bars.items()}
    return StudyFindings(numbers, {"overheads": {"parts": parts, "names": names}})


QUASAR_OVERHEADS = GroundTruthStudy(
    name="quasar-overheads",
    about="what profiling, classification, decisions, moves and waiting take of a workload's time",
    source="Quasar 6.5",
    measure=look,
    scale=0.1,
    pictures=(
        Picture(
            "overheads",
            stacked,
            "Overheads without waiting",
            {"ylabel": "% of the time from submission to end"},
        ),
    ),
    published={"overhead": 0.041, "short-jobs/overhead-p90": 0.09, "waiting": 0.0},
    notes=(
        (
            f"{QUASAR} on {EC2}. overhead: profiling, classification, decisions and moves, as "
            "published; waiting for room stands apart. Of those that ran."
        ),
        (
            f"Short jobs take less than {SHORT_SECONDS:g} s alone on their best platform; "
            "published is the most of short batch workloads, up to 9%."
        ),
        "moves: each start, and time without work after it: restarts, migrations, lost work.",
        "Classification and decisions are this machine's time for them.",
        (
            "all-of-it: overhead_fraction_mean of the report, where what failed counts as 1. The "
            "oracle profiles and classifies nothing: what it has of it is waiting, starts and "
            "failures, which this cluster costs any policy."
        ),
    ),
)
