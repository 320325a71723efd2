"""The runs that tell most of a program: the joint plan of Quasar 3.4, by what is left unknown."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import log, sqrt
from zlib import crc32

import numpy as np

from wharfinger.classification.classifier import Classifications
from wharfinger.classification.platforms import platform_column
from wharfinger.classification.utility import Aspect
from wharfinger.estimators.conditional import MIN_VARIANCE
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
UNMEASURED_STD = 100 / sqrt(12)
"""Of a score that may be any from 0 to 100."""
_SPREAD = 2.0**32


@dataclass(frozen=True, slots=True)
class Possible:
    """What can be run now.

    Attributes:
        reference: The platform for all but the run on another: the highest-end one.
        platforms: Others, and how much CPU a run there can have, in thousandths.
        servers: How many of the reference platform may be taken at once, 1 among them.
        elsewhere: On how many other platforms it is run, side by side; published: 1 (Quasar 3.2).
        injected: How many of the sources are, at most; published: 2.
        drawn_for: Name of the workload, by which its sources are drawn.
    """

    reference: str
    configurations: Sequence[Configuration]
    platforms: Mapping[str, int] = field(default_factory=dict)
    servers: Sequence[int] = (1,)
    sources: Sequence[SharedResource] = ()
    elsewhere: int = 1
    injected: int = SOURCES_INJECTED
    drawn_for: str = ""


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
    """At most three runs and those elsewhere, the reference first; empty where nothing can be run.

    ``rng`` chooses at random, as published; ``None`` = by what is left unknown.
    """
    if not possible.configurations:
        return ()
    pair = _pair(made.recommender(Aspect.SCALE_UP, type_), possible.configurations, rng)
    reference = Setting(possible.reference, pair[0])
    most = min(possible.injected, SOURCES_INJECTED)
    if rng is not None and len(possible.sources) > most:
        sources = tuple(possible.sources[i] for i in rng.permutation(len(possible.sources))[:most])
    else:
        tolerated = made.recommender(Aspect.TOLERATED, type_)
        sources = telling_sources(tolerated, possible.sources, most, possible.drawn_for)
    runs = [PlannedRun(reference, sources)]
    runs += [PlannedRun(Setting(possible.reference, other)) for other in pair[1:]]
    scale_out = made.recommender(Aspect.SCALE_OUT, type_)
    few = [str(count) for count in possible.servers if 1 < count <= MAX_SERVERS]
    if scale_out is not None:
        for count in telling(scale_out, few, 1, rng, str(reference.servers)):
            runs.append(PlannedRun(replace(reference, servers=int(count))))
    across = made.recommender(Aspect.HETEROGENEITY, type_)
    if across is not None:
        others = elsewhere(across.matrix.columns, possible, pair)
        measured = [name for c in pair for name in columns_of(Setting(possible.reference, c))]
        names = telling(across, list(others), possible.elsewhere * len(pair), rng, *measured)
        first = dict[str, Setting]()
        for setting in map(others.__getitem__, names):
            first.setdefault(setting.platform, setting)
        runs += map(PlannedRun, list(first.values())[: possible.elsewhere])
    return tuple(runs[: MAX_RUNS - 1 + possible.elsewhere])


def _pair(
    recommender: Recommender | None,
    configurations: Sequence[Configuration],
    rng: np.random.Generator | None,
) -> list[Configuration]:
    """Two configurations; the larger is the reference."""
    by_name = {configuration.name: configuration for configuration in configurations}
    chosen = telling(recommender, list(by_name), 2, rng) or list(by_name)[:2]
    pair = [by_name[name] for name in chosen]
    return sorted(pair, key=lambda c: (c.cpu_millicpus, c.memory_bytes or 0), reverse=True)


def elsewhere(
    columns: Sequence[str], possible: Possible, pair: Sequence[Configuration]
) -> dict[str, Setting]:
    """By column, runs on other platforms, with what is measured on the reference, too.

    Any platform that holds such a run: a small one may hold the smaller only.
    """
    others: dict[str, Setting] = {}
    for platform, most in possible.platforms.items():
        for configuration in pair:
            if platform == possible.reference or configuration.cpu_millicpus > most:
                continue
            setting = Setting(platform, configuration)
            column = next((name for name in columns_of(setting) if name in columns), None)
            if column is not None:
                others.setdefault(column, setting)
    return others


def columns_of(setting: Setting) -> tuple[str, str]:
    """Of heterogeneity, by allocation or without."""
    platform = setting.platform
    return platform_column(platform, setting.configuration.cpu_millicpus), platform


def telling(
    recommender: Recommender | None,
    names: Sequence[str],
    count: int,
    rng: np.random.Generator | None,
    *beside: str,
) -> list[str]:
    """The columns that leave least of a row unknown; those ``beside`` are measured in any case."""
    if rng is not None:
        return [names[i] for i in rng.permutation(len(names))[:count]]
    if recommender is None:
        return list(names[:count])
    return list(_least_unknown(recommender, tuple(names), count, beside))


def telling_sources(
    recommender: Recommender | None, sources: Sequence[SharedResource], count: int, name: str
) -> tuple[SharedResource, ...]:
    """So many sources that known programs have scores of, and one that none has, if there is one.

    A placement compares a score with those of others: one that none of them has tells it nothing
    yet, and is there to be learnt. The same ``name`` draws the same: a log is decided alike.
    """
    columns = () if recommender is None else recommender.matrix.columns
    known = tuple(source for source in sources if source in columns)
    if not known or not count or len(known) == len(sources):
        return _drawn_in_turn(recommender, tuple(sources), count, name)
    others = tuple(source for source in sources if source not in known)
    chosen = _drawn_in_turn(recommender, known, count, name)
    return *chosen, *_drawn_in_turn(recommender, others, max(1, count - len(chosen)), name)


def _drawn_in_turn(
    recommender: Recommender | None, sources: tuple[SharedResource, ...], count: int, name: str
) -> tuple[SharedResource, ...]:
    """So many, each drawn in proportion to what it tells of the row after those before.

    That is the variance which its score takes from all of them, for each second: ramps take the
    same time. The best of all each time would always leave others unknown: their columns are
    learnt from what is measured (Efraimidis and Spirakis, "Weighted random sampling with a
    reservoir", 2006).
    """
    if len(sources) <= count:
        return sources
    left, chosen = _covariance_of(recommender, sources), list[SharedResource]()
    for _ in range(count):
        told = (left**2).sum(axis=0) / np.maximum(left.diagonal(), MIN_VARIANCE)
        tells = dict(zip(sources, told.tolist(), strict=True))
        chosen.append(drawn({each: tells[each] for each in sources if each not in chosen}, name))
        left = reduce(left, sources.index(chosen[-1]))
    return tuple(chosen)


def drawn(tells: Mapping[SharedResource, float], name: str) -> SharedResource:
    """One of the sources, in proportion to what each tells; the same for the same ``name``."""

    def lot(source: SharedResource) -> float:
        uniform = (crc32(f"{name}/{source}".encode()) + 1) / (_SPREAD + 1)
        return log(uniform) / max(tells[source], MIN_VARIANCE)

    return max(tells, key=lot)


@lru_cache(maxsize=64)
def _covariance_of(recommender: Recommender | None, sources: tuple[SharedResource, ...]) -> Array:
    """(sources, sources) of the scores of a workload of which nothing is known.

    Where no known program has a score of a source, any is as likely, and tells of no other.
    """
    covariance = np.eye(len(sources)) * UNMEASURED_STD**2
    if recommender is not None:
        columns = recommender.matrix.columns
        here = [at for at, source in enumerate(sources) if source in columns]
        there = [columns.index(sources[at]) for at in here]
        known = recommender.predict({}).covariance
        covariance[np.ix_(here, here)] = known[np.ix_(there, there)]
    return covariance


@lru_cache(maxsize=512)
def _least_unknown(
    recommender: Recommender, names: tuple[str, ...], count: int, beside: tuple[str, ...]
) -> tuple[str, ...]:
    """The same; where the cluster is crowded it is asked over and over for those who wait."""
    columns, covariance = recommender.matrix.columns, recommender.predict({}).covariance
    candidates = np.array([columns.index(name) for name in names if name in columns], dtype=np.intp)
    for name in beside:
        if name in columns:
            covariance = reduce(covariance, columns.index(name))
    if not candidates.size:
        return ()
    if count == 1:
        return (columns[best_column(covariance, candidates)],)
    return tuple(columns[j] for j in variance_design(covariance, candidates, count))
