"""Quasar's Figure 2: what platforms, neighbors, allocations and data do to two applications.

Source: Quasar 2.2, Figure 2 and Table 1: a Hadoop job, of which every server, allocation, pattern
of interference and data set is tried, and a memcached of which the curve of latency by throughput
bends elsewhere under each. Published are the largest ratios.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from wharfinger.experiments import physics_plots
from wharfinger.experiments.ground_truth import GroundTruthStudy, Picture, StudyFindings, at, pooled
from wharfinger.experiments.knees import LARGEST, NO_KNEE, PATTERNS, SMALLEST, Memcached
from wharfinger.model.interference import SharedResource
from wharfinger.simulator.kernel.streams import Streams
from wharfinger.simulator.truth.physics.application import Application
from wharfinger.simulator.truth.physics.clusters import QUASAR
from wharfinger.simulator.truth.physics.datasets import DATA_SETS, NETFLIX, on_data, with_mappers
from wharfinger.simulator.truth.physics.hardware import Hardware
from wharfinger.simulator.truth.physics.pools import Pool, draw_pool
from wharfinger.simulator.truth.physics.regimes import Regime
from wharfinger.simulator.truth.physics.truth import Physics

JOBS = 8
"""Of a population's that are looked at; the picture shows the first."""
PARTS_OF_MEMORY = (0.25, 0.5, 0.75, 1.0)
SERVERS = (1, 2, 3, 4, 5, 6, 7, 8)
SHOWN = ("servers", "interference on J", "cores of J", "queries")
"""Of memcached's panels."""
_Groups = dict[str, list[float]]


def look(regime: Regime, seed: int, jobs: int = JOBS) -> StudyFindings:
    """Both applications of one population."""
    hadoop = [Hadoop(regime, job) for job in draw_pool(Pool.HADOOP, regime, Streams(seed))[:jobs]]
    violins = [job.violins() for job in hadoop]
    service = Memcached(regime, seed)
    panels = service.panels()
    knees = {panel: service.knees(cases) for panel, cases in panels.items()}
    ratios = [dict(_of_hadoop(each, job)) for each, job in zip(violins, hadoop, strict=True)]
    numbers: dict[str, float] = {}
    for name in ratios[0]:
        values = [job[name] for job in ratios]
        numbers[f"hadoop/{name}/median"] = float(np.median(values))
        numbers[f"hadoop/{name}/largest"] = max(values)
    numbers |= dict(_of_spark(regime, seed))
    for panel, loads in knees.items():
        ratio = _ratio([load for load in loads.values() if load > NO_KNEE])
        numbers[f"memcached/{panel}/knee-ratio"] = ratio
    curves = {panel: service.curves(panels[panel], knees[panel]) for panel in SHOWN}
    return StudyFindings(numbers, {"hadoop": violins[0], "memcached": curves})


# --- Hadoop ---------------------------------------------------------------------------------


class Hadoop:
    """A job, on each of the data sets and with any number of mappers.

    Args:
        regime: Of the physics.
        job: As it was drawn.
    """

    def __init__(self, regime: Regime, job: Application) -> None:
        jobs = [
            replace(with_mappers(on_data(job, data), mappers), name=f"{data.name}x{mappers}")
            for data in DATA_SETS
            for mappers in range(1, LARGEST.cores + 1)
        ]
        self.truth = Physics(QUASAR, jobs, regime.constants)
        whole = self.rate(SMALLEST, SMALLEST.cores, 1.0)
        assert whole is not None
        self.base = whole

    def rate(
        self,
        hardware: Hardware,
        cores: int,
        part: float,
        servers: int = 1,
        data: str = NETFLIX.name,
        beside: SharedResource | None = None,
    ) -> float | None:
        """Instructions per second on part of each server; ``None`` = it has no such source."""
        job = self.truth.applications[f"{data}x{cores}"]
        wanted = job.footprint_bytes + job.data_bytes / servers
        resident = at(job, cores, min(part * hardware.memory_bytes, wanted), servers=servers)
        if beside is None:
            return self.truth.alone(hardware.name, resident)
        source = self.truth.source(hardware.name, beside, 100.0, resident)
        return self.truth.rates(hardware.name, [resident, source])[0] if source else None

    def speedups(
        self, hardware: Hardware, data: str = NETFLIX.name, beside: SharedResource | None = None
    ) -> list[float]:
        """Over A with all that it has, by allocation; empty = the server has no such source."""
        rates = [self.rate(hardware, *a, data=data, beside=beside) for a in allocations(hardware)]
        return [] if None in rates else [rate / self.base for rate in rates if rate is not None]

    def interference(self, hardware: Hardware) -> _Groups:
        """Beside each pattern at full intensity."""
        patterns = {"none": None} | dict(PATTERNS)
        speedups = {name: self.speedups(hardware, beside=each) for name, each in patterns.items()}
        return {name: each for name, each in speedups.items() if each}

    def scale_out(self, servers: int) -> list[float]:
        """Over one server with the same allocation."""
        several = (self.rate(SMALLEST, *each, servers=servers) for each in allocations(SMALLEST))
        one = (self.rate(SMALLEST, *each) for each in allocations(SMALLEST))
        return [servers * a / b for a, b in zip(several, one, strict=True) if a and b]

    def violins(self) -> dict[str, _Groups]:
        """All that the figure's first row shows."""
        return {
            "servers": {each.name.upper(): self.speedups(each) for each in QUASAR},
            "interference on A": self.interference(SMALLEST),
            "servers at once": {str(count): self.scale_out(count) for count in SERVERS},
            "data sets": {
                f"{letter}: {data.name}": [
                    speedup for each in QUASAR for speedup in self.speedups(each, data.name)
                ]
                for letter, data in zip("ABC", DATA_SETS, strict=True)
            },
        }


def allocations(hardware: Hardware) -> list[tuple[int, float]]:
    """Cores, and part of memory, that a job is given of a server."""
    cores = sorted({1, 2, *range(4, hardware.cores + 1, 4), hardware.cores})
    return [(each, part) for each in cores if each <= hardware.cores for part in PARTS_OF_MEMORY]


def _of_hadoop(violins: Mapping[str, _Groups], hadoop: Hadoop) -> Iterator[tuple[str, float]]:
    servers, data = violins["servers"], violins["data sets"]
    yield "servers", _ratio([each[-1] for each in servers.values()])
    yield "allocation", max(map(_ratio, servers.values()))
    yield "interference-on-a", _worst(violins["interference on A"])
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


def _of_spark(regime: Regime, seed: int) -> Iterator[tuple[str, float]]:
    """How jobs scale that read again what memory can't hold: over eight servers, of any part."""
    middle = QUASAR[4]
    jobs = draw_pool(Pool.SPARK, regime, Streams(seed))
    truth = Physics([middle], jobs, regime.constants)
    exponents = []
    for job in jobs:
        for part in PARTS_OF_MEMORY:
            memory = part * middle.memory_bytes
            one, eight = (
                servers * truth.alone(middle.name, at(job, job.threads, memory, servers=servers))
                for servers in (1, 8)
            )
            exponents.append(float(np.log(eight / one) / np.log(8)))
    yield "spark/scale-out-exponent-lowest", min(exponents)
    yield "spark/scale-out-exponent-highest", max(exponents)


QUASAR_FIGURE2 = GroundTruthStudy(
    name="quasar-figure2",
    about="what platforms, interference, allocation and data do to Hadoop and memcached",
    source="Quasar, Figure 2 and Table 1",
    measure=look,
    units={"*/scale-out-exponent-*": "log speedup / log servers", "*": "ratio"},
    published={
        f"hadoop/{name}/{which}": value
        for name, value in (
            ("servers", 7.0), ("allocation", 10.0), ("interference-on-a", 10.0), ("data", 3.0),
        )
        for which in ("median", "largest")
    }
    | {
        "memcached/servers/knee-ratio": 3.0,
        "memcached/interference on A/knee-ratio": 7.0,
        "memcached/interference on J/knee-ratio": 7.0,
        "memcached/cores of J/knee-ratio": 8.0,
        "memcached/queries/knee-ratio": 3.0,
    },
    notes=(
        ("Published are the largest ratios of one job and one service. Measured are the ratio of "
        f"the median of {JOBS} jobs of a population, and the largest of all."),
        "An exponent above 1 is superlinear: several servers hold data that one does not.",
        ("The knee is the largest load with a 99th percentile below 1 ms. On A, memory's pattern "
        "makes the service page, and no load has one: it is left out there."),
    ),
    pictures=(
        Picture(
            "hadoop",
            physics_plots.violins,
            "Hadoop: speedup over all of server A",
            {"ylabel": "speedup"},
            pooled,
        ),
        Picture(
            "memcached",
            physics_plots.curves,
            "memcached: latency by throughput",
            {
                "axes_labels": ("thousands of queries a second", "99th percentile (ms)"),
                "log": True,
                "limits": (0.0, 1.5),
                "legend": "upper left",
            },
        ),
    ),
)  # fmt: skip
