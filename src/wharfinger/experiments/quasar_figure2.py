"""Quasar's Figure 2 (with 2.2 and Table 1): what the system does to Hadoop and to memcached.

A Hadoop job runs on every server, with every allocation, pattern of interference and data set. A
memcached's curve of latency by throughput has its knee elsewhere under each.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from wharfinger.experiments import physics_plots
from wharfinger.experiments.ground_truth import (
    GroundTruthStudy,
    Picture,
    StudyFindings,
    at,
    draw_programs,
    p99_seconds,
    pooled,
    rate_beside,
)
from wharfinger.experiments.plots import Curve
from wharfinger.model.interference import SharedResource
from wharfinger.simulator.truth.ground_truth import TrueResident
from wharfinger.simulator.truth.physics.application import Application, Serving, Streaming
from wharfinger.simulator.truth.physics.clusters import QUASAR
from wharfinger.simulator.truth.physics.datasets import DATA_SETS, NETFLIX, on_data, with_mappers
from wharfinger.simulator.truth.physics.hardware import GIB, Hardware
from wharfinger.simulator.truth.physics.pools import Pool
from wharfinger.simulator.truth.physics.regimes import Regime
from wharfinger.simulator.truth.physics.truth import Physics

SMALLEST, LARGEST = QUASAR[0], QUASAR[-1]
"""Servers A and J."""
JOBS = 8
"""Hadoop jobs of a population; the picture shows the first."""
PARTS_OF_MEMORY = (0.25, 0.5, 0.75, 1.0)
SERVERS = (1, 2, 3, 4, 5, 6, 7, 8)
R = SharedResource
PATTERNS: Mapping[str, SharedResource] = {
    "memory": R.MEMORY_CAPACITY,
    "L1 code": R.L1_INSTRUCTION_CACHE,
    "LL cache": R.LAST_LEVEL_CACHE,
    "disk": R.STORAGE_BANDWIDTH,
    "network": R.NETWORK_BANDWIDTH,
    "L2 cache": R.L2_CACHE,
    "CPU": R.INTEGER,
    "bandwidth": R.MEMORY_BANDWIDTH,
}
"""Table 1's without the prefetcher, which the physics lacks; memory stands for two sources."""
KNEE_SECONDS = 1e-3
"""Real deployments keep the 99th percentile between 0.2 and 1 ms."""
MEMORY_OF_SERVICE = 2 * GIB
"""Data of each memcached server."""
CORES = (1, 2, 4, 8, 12, 16, 24)
QUERIES: Mapping[str, tuple[float, float, float]] = {
    "100B reads": (22_000, 310, 0.0),
    "2KB reads": (27_000, 2_350, 0.0),
    "100B reads and writes": (34_000, 310, 0.06),
}
"""Instructions of a query, bytes of its packets on the wire with headers and acknowledgements, and
the wait of writes for one another: a write allocates, locks its bucket and moves an entry of the
list by age."""
READS = "100B reads"
NO_KNEE = 10.0
"""Queries a second: less is no knee."""
SAME = 0.03
"""Of the logarithm of knees: closer curves are drawn as one."""
SHOWN = ("servers", "interference on J", "cores of J", "queries")
"""Panels of memcached in the picture."""
_Groups = dict[str, list[float]]


def look(regime: Regime, seed: int, jobs: int = JOBS) -> StudyFindings:
    """Both applications of one population."""
    hadoop = [_Hadoop(regime, job) for job in draw_programs([Pool.HADOOP], regime, seed, jobs)]
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
        usable = [load for load in loads.values() if load > NO_KNEE]
        numbers[f"memcached/{panel}/knee-ratio"] = _ratio(usable)
    curves = {panel: service.curves(panels[panel], knees[panel]) for panel in SHOWN}
    return StudyFindings(numbers, {"hadoop": violins[0], "memcached": curves})


# --- Hadoop ---------------------------------------------------------------------------------


class _Hadoop:
    """A drawn job on each of the data sets, with any number of mappers."""

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
        """Instructions per second on part of each server; ``None`` = has no such source."""
        job = self.truth.applications[f"{data}x{cores}"]
        wanted = job.footprint_bytes + job.data_bytes / servers
        resident = at(job, cores, min(part * hardware.memory_bytes, wanted), servers=servers)
        return rate_beside(self.truth, hardware.name, resident, beside)

    def speedups(
        self, hardware: Hardware, data: str = NETFLIX.name, beside: SharedResource | None = None
    ) -> list[float]:
        """Over the whole server A, by allocation; empty = the server has no such source."""
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
    """Cores and parts of memory of a server."""
    cores = sorted({1, 2, *range(4, hardware.cores + 1, 4), hardware.cores})
    return [(each, part) for each in cores if each <= hardware.cores for part in PARTS_OF_MEMORY]


# --- memcached ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Case:
    """The service on a server, with sources of interference."""

    hardware: Hardware
    service: TrueResident
    beside: tuple[TrueResident, ...] = ()


class Memcached:
    """The service of a population."""

    def __init__(self, regime: Regime, seed: int) -> None:
        (drawn, *_) = draw_programs([Pool.MEMCACHED], regime, seed)
        drawn = replace(drawn, footprint_bytes=MEMORY_OF_SERVICE)
        kinds = [_of_kind(drawn, name) for name in QUERIES]
        self.truth = Physics(QUASAR, [drawn, *kinds], regime.constants)

    def panels(self) -> dict[str, dict[str, _Case]]:
        """The figure's second row; by default as many cores as A has."""
        two = self._on(SMALLEST.cores)
        return {
            "servers": {each.name.upper(): _Case(each, two) for each in QUASAR},
            "interference on A": dict(self._beside_patterns(SMALLEST, SMALLEST.cores)),
            "interference on J": dict(self._beside_patterns(LARGEST, LARGEST.cores // 3)),
            "cores of J": {str(each): _Case(LARGEST, self._on(each)) for each in CORES},
            "queries": {name: _Case(LARGEST, self._on(SMALLEST.cores, name)) for name in QUERIES},
        }

    def _on(self, cores: int, name: str = READS) -> TrueResident:
        return at(self.truth.applications[name], cores, load_per_second=0.0)

    def _beside_patterns(self, hardware: Hardware, cores: int) -> Iterator[tuple[str, _Case]]:
        service = self._on(cores)
        yield "none", _Case(hardware, service)
        for name, resource in PATTERNS.items():
            source = self.truth.source(hardware.name, resource, 100.0, service)
            if source is not None:
                yield name, _Case(hardware, service, (source,))

    def knees(self, cases: Mapping[str, _Case]) -> dict[str, float]:
        """The largest load with the 99th percentile below ``KNEE_SECONDS``, by case."""
        return {name: self._knee(case) for name, case in cases.items()}

    def _knee(self, case: _Case) -> float:
        low, high = 1.0, 1e7
        for _ in range(40):
            middle = (low * high) ** 0.5
            if self._latency(case, middle) <= KNEE_SECONDS:
                low = middle
            else:
                high = middle
        return low

    def _latency(self, case: _Case, load: float) -> float:
        service = replace(case.service, load_per_second=load)
        return p99_seconds(self.truth, case.hardware.name, service, case.beside)

    def curves(self, cases: Mapping[str, _Case], knees: Mapping[str, float]) -> dict[str, Curve]:
        """Latency in ms by thousands a second; curves of the same knee are drawn as one."""
        drawn: dict[str, Curve] = {}
        for name, knee in knees.items():
            label = next((label for label in drawn if _same(knees, label, knee)), None)
            if label is not None:
                drawn[f"{label}, {name}"] = drawn.pop(label)
                continue
            loads = knee * np.array([*np.linspace(0.1, 0.9, 9), 0.95, 0.98, 1.0, 1.01, 1.02])
            latencies = np.array([self._latency(cases[name], load) for load in loads])
            drawn[name] = ((loads / 1e3).tolist(), latencies * 1e3)
        return drawn


def _same(knees: Mapping[str, float], label: str, knee: float) -> bool:
    return any(abs(np.log(knees[name] / knee)) < SAME for name in label.split(", "))


def _of_kind(service: Application, name: str) -> Application:
    instructions, size, waits = QUERIES[name]
    assert service.serving is not None
    network = service.network
    return replace(
        service,
        name=name,
        contention=service.contention + waits,
        network=Streaming(size / instructions, network.own_bandwidth, network.depth),
        serving=Serving(instructions, service.serving.variation),
    )


# --- numbers --------------------------------------------------------------------------------


def _of_hadoop(violins: Mapping[str, _Groups], hadoop: _Hadoop) -> Iterator[tuple[str, float]]:
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
    alone = np.array(beside["none"])
    return max(float((alone / np.array(each)).max()) for each in beside.values())


def _ratio(values: Sequence[float]) -> float:
    return max(values) / min(values)


def _of_spark(regime: Regime, seed: int) -> Iterator[tuple[str, float]]:
    """How jobs scale out that reread what memory can't hold: to eight servers, by memory."""
    middle = QUASAR[4]
    jobs = draw_programs([Pool.SPARK], regime, seed)
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
