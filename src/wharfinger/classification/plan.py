"""One joint plan of at most four runs feeds all classifications (Quasar 3.4, figure 4).

The first run is the reference: interference is injected there. The second differs from it in its
configuration, the third in the number of servers, the fourth in the platform; so that each
classification has two entries of the workload's row. Which ones is chosen by what they leave
unknown of the row (``estimators.design``), or at random as published.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from wharfinger.classification.classifications import Classifications
from wharfinger.classification.utility import Aspect
from wharfinger.estimators.design import best_column, reduce, variance_design
from wharfinger.estimators.recommender import Recommender
from wharfinger.model.configuration import Configuration, Setting
from wharfinger.model.interference import SharedResource
from wharfinger.model.workload import WorkloadType

MAX_RUNS = 4
MAX_SERVERS = 4
"""A plan takes no more: beyond them stand the offline rows (Quasar 3.2)."""
SOURCES_INJECTED = 2


@dataclass(frozen=True, slots=True)
class Possible:
    """What can be run now.

    Attributes:
        reference: The platform for all but the run on another: the highest-end one.
        configurations: On it; the workload's framework takes all of them.
        platforms: Others that can take one of these configurations.
        servers: How many servers of the reference platform may be taken at once, 1 among them.
        sources: That can be injected.
    """

    reference: str
    configurations: Sequence[Configuration]
    platforms: Sequence[str] = ()
    servers: Sequence[int] = (1,)
    sources: Sequence[SharedResource] = ()


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """One run of a copy; its sources are injected one after the other."""

    setting: Setting
    sources: tuple[SharedResource, ...] = ()


def joint_plan(
    made: Classifications,
    possible: Possible,
    type_: WorkloadType | None = None,
    rng: np.random.Generator | None = None,
) -> tuple[PlannedRun, ...]:
    """At most four runs, the reference first; empty where nothing can be run.

    What is not classified needs no run. ``rng`` chooses at random, as published; ``None`` = by what
    is left unknown.
    """
    if not possible.configurations:
        return ()
    pair = _pair(made.recommender(Aspect.SCALE_UP, type_), possible.configurations, rng)
    reference = Setting(possible.reference, pair[0])
    sources = possible.sources
    if len(sources) > SOURCES_INJECTED:
        tolerated = made.recommender(Aspect.TOLERATED, type_)
        names = [str(source) for source in sources]
        sources = list(map(SharedResource, _telling(tolerated, names, SOURCES_INJECTED, rng)))
    runs = [PlannedRun(reference, tuple(sources))]
    runs += [PlannedRun(Setting(possible.reference, other)) for other in pair[1:]]
    scale_out = made.recommender(Aspect.SCALE_OUT, type_)
    few = [str(count) for count in possible.servers if 1 < count <= MAX_SERVERS]
    if scale_out is not None:
        for count in _telling(scale_out, few, 1, rng, beside=str(reference.servers)):
            runs.append(PlannedRun(replace(reference, servers=int(count))))
    across = made.recommender(Aspect.HETEROGENEITY, type_)
    others = [platform for platform in possible.platforms if platform != reference.platform]
    if across is not None:
        for platform in _telling(across, others, 1, rng, beside=reference.platform):
            runs.append(PlannedRun(replace(reference, platform=platform)))
    return tuple(runs[:MAX_RUNS])


def _pair(
    recommender: Recommender | None,
    configurations: Sequence[Configuration],
    rng: np.random.Generator | None,
) -> list[Configuration]:
    """Two configurations; the larger is the reference."""
    by_name = {configuration.name: configuration for configuration in configurations}
    chosen = _telling(recommender, list(by_name), 2, rng) or list(by_name)[:2]
    pair = [by_name[name] for name in chosen]
    return sorted(pair, key=lambda c: (c.cpu_millicpus, c.memory_bytes or 0), reverse=True)


def _telling(
    recommender: Recommender | None,
    names: Sequence[str],
    count: int,
    rng: np.random.Generator | None,
    beside: str = "",
) -> list[str]:
    """So many of the columns that leave least of a row unknown; the first where none is known.

    ``beside`` is a column that is measured in any case.
    """
    if rng is not None:
        return [names[i] for i in rng.permutation(len(names))[:count]]
    if recommender is None:
        return list(names[:count])
    columns, covariance = recommender.matrix.columns, recommender.predict({}).covariance
    candidates = np.array([columns.index(name) for name in names if name in columns], dtype=np.intp)
    if beside in columns:
        covariance = reduce(covariance, columns.index(beside))
    if not candidates.size:
        return []
    if count == 1:
        return [columns[best_column(covariance, candidates)]]
    return [columns[j] for j in variance_design(covariance, candidates, count)]
