"""One joint plan of at most four runs feeds all classifications (Quasar 3.4, figure 4).

The first run is the reference: interference is injected there. The second differs from it in its
configuration, the third in the number of servers, the fourth in the platform; so that each
classification has two entries of the workload's row. Which ones is chosen by what they leave
unknown of the row (``learning.design``), or at random as published.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from wharfinger.classification.classifications import Classifications
from wharfinger.classification.utility import Aspect
from wharfinger.estimators.design import best_column, reduce, variance_design
from wharfinger.estimators.recommender import Recommender
from wharfinger.model.arrays import Array
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
    """One run of a copy.

    Attributes:
        setting: Where, with how much.
        sources: Injected into it one after the other.
    """

    setting: Setting
    sources: tuple[SharedResource, ...] = ()


def joint_plan(
    made: Classifications,
    possible: Possible,
    type_: WorkloadType | None = None,
    rng: np.random.Generator | None = None,
) -> tuple[PlannedRun, ...]:
    """At most four runs, the reference first; empty where nothing can be run.

    Args:
        made: What the runs are for; what is not classified needs none.
        possible: What can be run.
        type_: Of the workload.
        rng: Chooses at random, as published; ``None`` = by what is left unknown.
    """
    if not possible.configurations:
        return ()
    pair = _pair(made.recommender(Aspect.SCALE_UP, type_), possible.configurations, rng)
    reference = Setting(possible.reference, pair[0])
    runs = [PlannedRun(reference, _sources(made, possible.sources, type_, rng))]
    runs += [PlannedRun(Setting(possible.reference, other)) for other in pair[1:]]
    runs += map(PlannedRun, _elsewhere(made, reference, possible, type_, rng))
    return tuple(runs[:MAX_RUNS])


def _elsewhere(
    made: Classifications,
    reference: Setting,
    possible: Possible,
    type_: WorkloadType | None,
    rng: np.random.Generator | None,
) -> list[Setting]:
    """The third and the fourth run: on several servers, and on another platform."""
    few = [str(count) for count in possible.servers if 1 < count <= MAX_SERVERS]
    others = [platform for platform in possible.platforms if platform != reference.platform]
    count = _one_more(made.recommender(Aspect.SCALE_OUT, type_), str(reference.servers), few, rng)
    known = made.recommender(Aspect.HETEROGENEITY, type_)
    platform = _one_more(known, reference.platform, others, rng)
    found = [replace(reference, servers=int(count))] if count else []
    return [*found, replace(reference, platform=platform)] if platform else found


def _pair(
    recommender: Recommender | None,
    configurations: Sequence[Configuration],
    rng: np.random.Generator | None,
) -> list[Configuration]:
    """Two configurations; the larger is the reference."""
    names = [configuration.name for configuration in configurations]
    chosen = names[:2]
    if rng is not None:
        chosen = [names[i] for i in rng.permutation(len(names))[:2]]
    elif recommender is not None:
        columns, covariance = _cold(recommender, names)
        design = variance_design(covariance, np.array(list(columns.values()), dtype=np.intp), 2)
        chosen = [recommender.matrix.columns[j] for j in design] or chosen
    pair = [configurations[names.index(name)] for name in chosen]
    return sorted(pair, key=lambda c: (c.cpu_millicpus, c.memory_bytes or 0), reverse=True)


def _one_more(
    recommender: Recommender | None,
    reference: str,
    candidates: Sequence[str],
    rng: np.random.Generator | None,
) -> str | None:
    """The entry that leaves least unknown beside the reference's; ``None`` = none can be had."""
    if recommender is None or not candidates:
        return None
    if rng is not None:
        return candidates[int(rng.integers(len(candidates)))]
    columns, covariance = _cold(recommender, [*candidates, reference])
    first = columns.pop(reference, None)
    if not columns:
        return None
    left = covariance if first is None else reduce(covariance, first)
    best = best_column(left, np.array(list(columns.values()), dtype=np.intp))
    return recommender.matrix.columns[best]


def _sources(
    made: Classifications,
    sources: Sequence[SharedResource],
    type_: WorkloadType | None,
    rng: np.random.Generator | None,
) -> tuple[SharedResource, ...]:
    """Two of them, in the order in which they are given where nothing is known."""
    if len(sources) <= SOURCES_INJECTED:
        return tuple(sources)
    recommender = made.recommender(Aspect.TOLERATED, type_)
    if rng is not None:
        return tuple(sources[i] for i in rng.permutation(len(sources))[:SOURCES_INJECTED])
    names = [str(source) for source in sources]
    if recommender is None:
        return tuple(sources[:SOURCES_INJECTED])
    columns, covariance = _cold(recommender, names)
    candidates = np.array(list(columns.values()), dtype=np.intp)
    design = variance_design(covariance, candidates, SOURCES_INJECTED)
    return tuple(SharedResource(recommender.matrix.columns[j]) for j in design)


def _cold(recommender: Recommender, names: Sequence[str]) -> tuple[dict[str, int], Array]:
    """Which of the names are columns, and the covariance of a row of which nothing is known."""
    at: Mapping[str, int] = {column: j for j, column in enumerate(recommender.matrix.columns)}
    return {name: at[name] for name in names if name in at}, recommender.predict({}).covariance
