"""What a Slurm site's engine lacks, in targets kept: whole CPUs, and no resize of what runs.

Nothing was published of this. Two of the papers' scenarios and a synthetic trace run under what
most sites have (``backfill``), under what users reserve (``reservation``), under ``quasar`` and the
oracle, on four engines: with CPU in thousandths and resizes, without one of the two, without both.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from wharfinger.experiments.comparison import Comparison
from wharfinger.experiments.runs import Case, Figure, RunExperiment, RunMeasure
from wharfinger.simulator.pieces import (
    FRACTIONAL_CPUS,
    NO_RESIZE,
    RESIZE,
    WHOLE_CPUS,
    informed,
)
from wharfinger.simulator.policies import ORACLE

KEPT = "qos_kept_fraction"
BACKFILL, QUASAR = "backfill", "quasar"
ABLE, SITE = (FRACTIONAL_CPUS, RESIZE), (WHOLE_CPUS, NO_RESIZE)
ENGINES = (ABLE, (WHOLE_CPUS, RESIZE), (FRACTIONAL_CPUS, NO_RESIZE), SITE)
POLICIES = (ORACLE, QUASAR, BACKFILL, "reservation")
OF_ABLE, OF_GAIN = 0.9, 0.5
"""What ``quasar`` is to keep on a site's engine: of what it keeps with thousandths and resizes; and
of what the oracle gains over ``backfill`` there."""


@dataclass(frozen=True, slots=True)
class SlurmSites(RunExperiment):
    """Also says what each engine leaves of the targets, and whether that is what is wanted."""

    def _notes(self, comparisons: Mapping[Case, Comparison]) -> Iterator[str]:
        yield from super(SlurmSites, self)._notes(comparisons)
        for case, comparison in comparisons.items():
            yield from _account(case.name, comparison)


def _account(case: str, comparison: Comparison) -> Iterator[str]:
    def kept(policy: str, engine: tuple[str, ...]) -> float:
        mean = comparison[informed(policy, *engine)].metrics[KEPT]
        return 0.0 if mean is None else mean.mean

    best = kept(QUASAR, ABLE)
    for engine in ENGINES:
        own, floor, bound = (kept(name, engine) for name in (QUASAR, BACKFILL, ORACLE))
        gain, most = own - floor, bound - floor
        words = [f"{case} on {' and '.join(engine)}: {QUASAR} keeps {own:.3f}"]
        if engine != ABLE and best:
            words.append(f"{own / best:.2f} of what it keeps on {' and '.join(ABLE)}")
        words.append(f"{gain:+.3f} over {BACKFILL}, where the {ORACLE} has {most:+.3f}")
        if engine == SITE:
            missed = [
                f"less than {OF_ABLE:g} of it" if own < OF_ABLE * best else "",
                f"less than {OF_GAIN:g} of that gain" if gain < OF_GAIN * most else "",
            ]
            words.append(" and ".join(filter(None, missed)) or "as much as is wanted")
        yield f"{'; '.join(words)}."


SLURM_SITES = SlurmSites(
    name="slurm-sites",
    about="what whole CPUs and no resize cost in kept targets, beside what most sites run",
    source="nothing published: what a policy that sizes by target loses on a Slurm site's engine",
    policies=tuple(informed(policy, *engine) for engine in ENGINES for policy in POLICIES),
    scenarios=("quasar-batch", "paragon-local-medium", "slurm-site"),
    repeats=3,
    most_workloads=180,
    measures=(
        RunMeasure(KEPT, better=1),
        RunMeasure("kept-of-able", "times", over=(KEPT, informed(QUASAR, *ABLE))),
        RunMeasure("target_performance_mean", better=1),
        RunMeasure("best_effort_performance_mean", better=1),
        RunMeasure("waiting_loss_mean", better=-1),
        RunMeasure("allocation_loss_mean", better=-1),
        RunMeasure("unfinished", "workloads"),
    ),
    figures=(Figure("bars", "kept", "Targets kept", of=KEPT, label="share"),),
    notes=(
        (
            "Words before a policy say what the engine can do; what users state, and all that is "
            "drawn, is the same on each. kept-of-able: over what quasar keeps with CPU in "
            "thousandths and resizes."
        ),
        (
            "reservation and backfill are given what users state; in the trace that is what its "
            "jobs had."
        ),
    ),
)  # fmt: skip
