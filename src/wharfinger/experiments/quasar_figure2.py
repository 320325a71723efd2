"""Quasar's Figure 2: what platforms, neighbours, allocations and data do to two applications.

Source: Quasar 2.2, Figure 2 and Table 1: a Hadoop job, of which every server, allocation, pattern
of interference and data set is tried, and a memcached of which the curve of latency by throughput
bends elsewhere under each. Published are the largest ratios.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from wharfinger.experiments import physics_plots
from wharfinger.experiments.base import Arguments, Context, ExperimentResult
from wharfinger.experiments.ground_truth import (
    Fact,
    Numbers,
    at,
    over_seeds,
    regime_of,
    rows_of,
    seeds_of,
)
from wharfinger.experiments.knees import LARGEST, NO_KNEE, PATTERNS, SMALLEST, Memcached
from wharfinger.model.interference import SharedResource
from wharfinger.simulator.kernel.streams import Streams
from wharfinger.simulator.truth.ground_truth import Resident
from wharfinger.simulator.truth.physics.application import Application
from wharfinger.simulator.truth.physics.clusters import QUASAR
from wharfinger.simulator.truth.physics.datasets import DATA_SETS, NETFLIX, on_data, with_mappers
from wharfinger.simulator.truth.physics.hardware import Hardware
from wharfinger.simulator.truth.physics.pools import Pool, draw_pool
from wharfinger.simulator.truth.physics.regimes import Regime
from wharfinger.simulator.truth.physics.truth import Physics

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.figure import Figure

    from wharfinger.experiments.physics_plots import Curve

JOBS = 8
"""Of a population's that are looked at; the picture shows the first."""
PARTS_OF_MEMORY = (0.25, 0.5, 0.75, 1.0)
SERVERS = (1, 2, 3, 4, 5, 6, 7, 8)
_Groups = dict[str, list[float]]


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """Of one population.

    Attributes:
        numbers: Those of the table.
        violins: Of Hadoop, by panel and name.
        curves: Of memcached, latency by throughput, by panel and name.
    """

    numbers: Numbers
    violins: Mapping[str, _Groups]
    curves: "Mapping[str, Mapping[str, Curve]]"


class QuasarFigure2:
    """The experiment."""

    name = "quasar-figure2"
    about = "what platforms, interference, allocation and data do to Hadoop and memcached"
    source = "Quasar, Figure 2 and Table 1"
    takes = frozenset({"regime"})
    repeats = 7

    def check(self, arguments: Arguments) -> None:
        """Refuse a regime that there is not."""
        regime_of(arguments)

    def run(self, context: Context) -> ExperimentResult:
        """Both rows of the figure."""
        regime = regime_of(context.arguments)
        found = over_seeds(context, partial(look, regime))
        return ExperimentResult(
            self.name,
            seeds_of(context.arguments),
            rows_of([each.numbers for each in found], FACTS),
            (*_NOTES, f"Regime {regime.name}."),
            pictures=_pictures(found),
        )


def look(regime: Regime, seed: int) -> Found:
    """Both applications of one population."""
    drawn = draw_pool(Pool.HADOOP, regime, Streams(seed))[:JOBS]
    jobs = [Hadoop(regime, job) for job in drawn]
    violins = [job.violins() for job in jobs]
    service = Memcached(regime, seed)
    knees = {
        "servers": service.platforms(),
        "interference on A": service.interference(SMALLEST, SMALLEST.cores),
        "interference on J": service.interference(LARGEST, LARGEST.cores // 3),
        "cores of J": service.cores(),
        "queries": service.queries(),
    }
    each = [dict(_of_hadoop(found, job)) for found, job in zip(violins, jobs, strict=True)]
    numbers = (
        dict(_over_jobs(each))
        | dict(_of_spark(regime, seed))
        | {
            f"memcached/{name}/knee-ratio": _ratio(
                [each for each in panel.values() if each > NO_KNEE]
            )
            for name, panel in knees.items()
        }
    )
    return Found(numbers, violins[0], service.curves)


def _over_jobs(jobs: Sequence[Numbers]) -> Iterator[tuple[str, float]]:
    for name in jobs[0]:
        values = [job[name] for job in jobs]
        yield f"hadoop/{name}/median", float(np.median(values))
        yield f"hadoop/{name}/largest", max(values)


# --- Hadoop ---------------------------------------------------------------------------------


class Hadoop:
    """A job, on each of the data sets and with any number of mappers.

    Args:
        regime: Of the physics.
        job: As it was drawn.
    """

    def __init__(self, regime: Regime, job: Application) -> None:
        self.job = job
        jobs = [
            self._on(name, mappers)
            for name in range(len(DATA_SETS))
            for mappers in range(1, LARGEST.cores + 1)
        ]
        self.truth = Physics(QUASAR, jobs, regime.constants)
        self.base = self.rate(SMALLEST, SMALLEST.cores, 1.0)

    def violins(self) -> dict[str, _Groups]:
        """All that the figure's first row shows."""
        return {
            "servers": self.platforms(),
            "interference on A": self.interference(SMALLEST),
            "servers at once": self.scale_out(),
            "data sets": self.data_sets(),
        }

    def _on(self, number: int, mappers: int) -> Application:
        data = DATA_SETS[number]
        return replace(
            with_mappers(on_data(self.job, data), mappers), name=f"{data.name}x{mappers}"
        )

    def resident(
        self,
        hardware: Hardware,
        cores: int,
        part: float,
        servers: int = 1,
        data: str = NETFLIX.name,
    ) -> Resident:
        """The job on part of a server."""
        job = self.truth.applications[f"{data}x{cores}"]
        wanted = job.footprint_bytes + job.data_bytes / servers
        return at(job, cores, min(part * hardware.memory_bytes, wanted), servers=servers)

    def rate(self, hardware: Hardware, cores: int, part: float) -> float:
        """Instructions per second."""
        return self.truth.alone(hardware.name, self.resident(hardware, cores, part))

    def platforms(self) -> _Groups:
        """Over server A with all that it has, by allocation within each server."""
        return {
            hardware.name.upper(): [
                self.rate(hardware, cores, part) / self.base
                for cores, part in allocations(hardware)
            ]
            for hardware in QUASAR
        }

    def interference(self, hardware: Hardware) -> _Groups:
        """Over A with all that it has, beside each pattern at full intensity, by allocation."""
        base = self.base
        found: _Groups = {
            "none": [self.rate(hardware, *each) / base for each in allocations(hardware)]
        }
        for name, resource in PATTERNS.items():
            rates = [self._beside(hardware, resource, *each) for each in allocations(hardware)]
            if None not in rates:
                found[name] = [rate / base for rate in rates if rate is not None]
        return found

    def _beside(
        self, hardware: Hardware, resource: SharedResource, cores: int, part: float
    ) -> float | None:
        resident = self.resident(hardware, cores, part)
        source = self.truth.source(hardware.name, resource, 100.0, resident)
        if source is None:
            return None
        return self.truth.rates(hardware.name, [resident, source])[0]

    def scale_out(self) -> _Groups:
        """Over one server with the same allocation."""
        return {
            str(servers): [
                servers
                * self.truth.alone(
                    SMALLEST.name, self.resident(SMALLEST, cores, part, servers=servers)
                )
                / self.rate(SMALLEST, cores, part)
                for cores, part in allocations(SMALLEST)
            ]
            for servers in SERVERS
        }

    def data_sets(self) -> _Groups:
        """Over A with all that it has and the first data set, by server and allocation."""
        return {
            f"{letter}: {data.name}": [
                self.truth.alone(
                    hardware.name, self.resident(hardware, cores, part, data=data.name)
                )
                / self.base
                for hardware in QUASAR
                for cores, part in allocations(hardware)
            ]
            for letter, data in zip("ABC", DATA_SETS, strict=True)
        }


def _of_spark(regime: Regime, seed: int) -> Iterator[tuple[str, float]]:
    """How jobs scale that read again what memory can't hold: over eight servers, of any part."""
    middle = QUASAR[4]
    jobs = draw_pool(Pool.SPARK, regime, Streams(seed))
    truth = Physics([middle], jobs, regime.constants)
    exponents = []
    for job in jobs:
        for part in PARTS_OF_MEMORY:
            one, eight = (
                servers
                * truth.alone(
                    middle.name, at(job, job.threads, part * middle.memory_bytes, servers=servers)
                )
                for servers in (1, 8)
            )
            exponents.append(float(np.log(eight / one) / np.log(8)))
    yield "spark/scale-out-exponent-lowest", min(exponents)
    yield "spark/scale-out-exponent-highest", max(exponents)


def allocations(hardware: Hardware) -> list[tuple[int, float]]:
    """Cores, and part of memory, that a job is given of a server."""
    cores = sorted({1, 2, *range(4, hardware.cores + 1, 4), hardware.cores})
    return [(each, part) for each in cores if each <= hardware.cores for part in PARTS_OF_MEMORY]


def _of_hadoop(violins: Mapping[str, _Groups], hadoop: Hadoop) -> Iterator[tuple[str, float]]:
    servers, data = violins["servers"], violins["data sets"]
    yield "servers", _ratio([each[-1] for each in servers.values()])
    yield "allocation", max(map(_ratio, servers.values()))
    beside = violins["interference on A"]
    yield "interference-on-a", _worst(beside)
    yield "interference-on-j", _worst(hadoop.interference(LARGEST))
    on_each = np.array([*data.values()])
    yield "data", float((on_each.max(axis=0) / on_each.min(axis=0)).max())
    eight = np.log(violins["servers at once"]["8"]) / np.log(8)
    yield "scale-out-exponent-lowest", float(eight.min())
    yield "scale-out-exponent-highest", float(eight.max())


def _worst(beside: _Groups) -> float:
    """The largest slow-down of any allocation beside any pattern."""
    alone = np.array(beside["none"])
    return max(float((alone / np.array(each)).max()) for each in beside.values())


def _ratio(values: Sequence[float]) -> float:
    return max(values) / min(values)


# --- what is shown --------------------------------------------------------------------------

FACTS = (
    *(
        Fact(f"hadoop/{name}/{which}", unit, published)
        for name, unit, published in (
            ("servers", "ratio", 7.0),
            ("allocation", "ratio", 10.0),
            ("interference-on-a", "ratio", 10.0),
            ("interference-on-j", "ratio", None),
            ("data", "ratio", 3.0),
            ("scale-out-exponent-lowest", "log speedup / log servers", None),
            ("scale-out-exponent-highest", "log speedup / log servers", None),
        )
        for which in ("median", "largest")
    ),
    Fact("spark/scale-out-exponent-lowest", "log speedup / log servers"),
    Fact("spark/scale-out-exponent-highest", "log speedup / log servers"),
    Fact("memcached/servers/knee-ratio", "ratio", 3.0),
    Fact("memcached/interference on A/knee-ratio", "ratio", 7.0),
    Fact("memcached/interference on J/knee-ratio", "ratio", 7.0),
    Fact("memcached/cores of J/knee-ratio", "ratio", 8.0),
    Fact("memcached/queries/knee-ratio", "ratio", 3.0),
)
_NOTES = (
    (
        "Published are the largest ratios of one job and one service. Measured are the ratio of "
        f"the median of {JOBS} jobs of a population, and the largest of all."
    ),
    "An exponent above 1 is superlinear: several servers hold data that one does not.",
    (
        "The knee is the largest load with a 99th percentile below 1 ms. On A, memory's pattern "
        "makes the service page, and no load has one: it is left out there."
    ),
)


_PANELS = ("servers", "interference on J", "cores of J", "queries")


def _pictures(found: Sequence[Found]) -> "dict[str, Callable[[], Figure]]":
    pooled = {
        panel: {
            name: [value for each in found for value in each.violins[panel][name]]
            for name in found[0].violins[panel]
        }
        for panel in found[0].violins
    }
    return {
        "hadoop": partial(
            physics_plots.violins,
            pooled,
            "Hadoop: speedup over all of server A",
            "speedup",
        ),
        "memcached": partial(
            physics_plots.curves,
            {name: found[0].curves[name] for name in _PANELS},
            "memcached: latency by throughput",
            ("thousands of queries a second", "99th percentile (ms)"),
            log="x",
            limits=(0.0, 1.5),
            legend="upper left",
        ),
    }
