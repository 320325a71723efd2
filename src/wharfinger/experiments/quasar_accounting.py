"""Where each point of the gap between Quasar's policy and the oracle goes.

Nothing was published of this. Pieces of the truth are added one after the other (``informed``), as
in ``paragon_accounting``. What is left to the oracle is the rule, and services, of which nothing
but their contention is told.
"""

from collections.abc import Iterable
from dataclasses import replace
from statistics import fmean

from wharfinger.experiments.quasar_figures import EC2, KEPT, OF_QUASAR, OVER_TARGET, QUASAR
from wharfinger.experiments.runs import Figure, RunMeasure
from wharfinger.model.workload import WorkloadType
from wharfinger.simulator.pieces import (
    NO_PROFILING,
    NO_REACTION,
    TRUE_CONTENTION,
    TRUE_PLATFORMS,
    TRUE_SERVERS,
    TRUE_SIZES,
    informed,
)
from wharfinger.simulator.policies import ORACLE
from wharfinger.simulator.results.outcome import JobOutcome, Outcome
from wharfinger.simulator.run import UNDER

PIECES = (TRUE_SIZES, TRUE_PLATFORMS, TRUE_SERVERS, TRUE_CONTENTION, NO_PROFILING)
LADDER = tuple(informed(QUASAR, *PIECES[:count]) for count in range(len(PIECES) + 1))
BY_THEMSELVES = tuple(informed(QUASAR, piece) for piece in PIECES[1:-1])
UNREACTING = informed(QUASAR, NO_REACTION), informed(ORACLE, NO_REACTION)
UNDER_ORACLE = f"{QUASAR}{UNDER}{ORACLE}"
"""By the oracle's admission: what any order could add."""


def of_services(outcome: Outcome) -> float | None:
    """Mean performance over target of services."""
    return _mean(fate for fate in outcome.fates if fate.type == WorkloadType.LATENCY_CRITICAL)


def of_jobs(outcome: Outcome) -> float | None:
    """Mean performance over target of all others that have one."""
    return _mean(fate for fate in outcome.fates if fate.type != WorkloadType.LATENCY_CRITICAL)


def _mean(fates: Iterable[JobOutcome]) -> float | None:
    own = [each.target_performance for each in fates if each.target_performance is not None]
    return fmean(own) if own else None


QUASAR_ACCOUNTING = replace(
    OF_QUASAR,
    name="quasar-accounting",
    about="the gap between quasar and the oracle, piece by piece",
    source="nothing published: what Quasar's estimates, profiling, reaction and rule cost here",
    policies=(ORACLE, *LADDER, *BY_THEMSELVES, UNDER_ORACLE, *UNREACTING, "least-loaded"),
    scenarios=(EC2,),
    most_workloads=120,
    measures=(
        RunMeasure(OVER_TARGET, better=1),
        RunMeasure("of-oracles", over=(OVER_TARGET, ORACLE)),
        RunMeasure("jobs", better=1, of=of_jobs),
        RunMeasure("services", better=1, of=of_services),
        RunMeasure(KEPT, better=1),
        RunMeasure("platform_loss_mean", better=-1),
        RunMeasure("allocation_loss_mean", better=-1),
        RunMeasure("interference_loss_mean", better=-1),
        RunMeasure("waiting_loss_mean", better=-1),
    ),
    figures=(
        Figure(
            "bars",
            "target-{regime}",
            "Performance over target: {regime}",
            of=OVER_TARGET,
            label="mean",
        ),
    ),
    notes=(
        (
            f"From {QUASAR} on, each of {', '.join(PIECES)} is added to those before; the "
            "difference between two is what a piece is worth: the size on one platform, other "
            "platforms, several servers, neighbors, the copies. What is left to the oracle is the "
            "rule's and the services'."
        ),
        (
            "A piece can lose: exact estimates leave no margin for what is still guessed, such as "
            "neighbors that come later. What is reclassified is told the truth again, not what it "
            "measured beside its neighbors."
        ),
        (
            "Services are told nothing but what neighbors take, so that without profiling they are "
            "guesses: jobs and services stand apart."
        ),
        (
            f"{UNDER_ORACLE}: what another order of admission gains. {' and '.join(UNREACTING)} "
            "change nothing that runs: what each loses is what its reaction is worth."
        ),
    ),
)
