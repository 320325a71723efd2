"""How much load a memcached keeps up with: curves of latency by throughput, and where they bend.

The second row of Quasar's Figure 2; ``quasar_figure2`` calls it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from wharfinger.experiments.ground_truth import at, p99_seconds
from wharfinger.experiments.physics_plots import Curve
from wharfinger.model.interference import SharedResource
from wharfinger.simulator.kernel.streams import Streams
from wharfinger.simulator.truth.ground_truth import TrueResident
from wharfinger.simulator.truth.physics.application import Application, Serving, Streaming
from wharfinger.simulator.truth.physics.clusters import QUASAR
from wharfinger.simulator.truth.physics.hardware import GIB, Hardware
from wharfinger.simulator.truth.physics.pools import Pool, draw_pool
from wharfinger.simulator.truth.physics.regimes import Regime
from wharfinger.simulator.truth.physics.truth import Physics

SMALLEST, LARGEST = QUASAR[0], QUASAR[-1]
"""Servers A and J."""
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
"""Table 1's, but for the prefetcher's, which the model has not; its memory is taken both ways."""
KNEE_SECONDS = 1e-3
"""Real deployments keep the 99th percentile between 0.2 and 1 ms."""
MEMORY_OF_SERVICE = 2 * GIB
"""Of its data, each server holds so much."""
CORES = (1, 2, 4, 8, 12, 16, 24)
QUERIES: Mapping[str, tuple[float, float, float]] = {
    "100B reads": (22_000, 310, 0.0),
    "2KB reads": (27_000, 2_350, 0.0),
    "100B reads and writes": (34_000, 310, 0.06),
}
"""Instructions of a query, bytes of its packets on the wire with headers and acknowledgements, and
what writes wait for one another: a write allocates, takes the lock of its bucket and moves an entry
of the list by age."""
READS = "100B reads"
NO_KNEE = 10.0
"""Queries a second: less than this is no knee."""
SAME = 0.03
"""Of knees, in their logarithm: closer curves are drawn as one."""


@dataclass(frozen=True, slots=True)
class ServiceCase:
    """The service on a server, and sources beside it."""

    hardware: Hardware
    service: TrueResident
    beside: tuple[TrueResident, ...] = ()


class Memcached:
    """The service of the population.

    Args:
        regime: Of the physics.
        seed: Of the population.
    """

    def __init__(self, regime: Regime, seed: int) -> None:
        (drawn, *_) = draw_pool(Pool.MEMCACHED, regime, Streams(seed))
        drawn = replace(drawn, footprint_bytes=MEMORY_OF_SERVICE)
        kinds = [_of_kind(drawn, name) for name in QUERIES]
        self.truth = Physics(QUASAR, [drawn, *kinds], regime.constants)

    def panels(self) -> dict[str, dict[str, ServiceCase]]:
        """What the figure's second row shows: as many cores as A has, if nothing else is said."""
        two = self._on(SMALLEST.cores)
        return {
            "servers": {each.name.upper(): ServiceCase(each, two) for each in QUASAR},
            "interference on A": dict(self._beside_patterns(SMALLEST, SMALLEST.cores)),
            "interference on J": dict(self._beside_patterns(LARGEST, LARGEST.cores // 3)),
            "cores of J": {str(each): ServiceCase(LARGEST, self._on(each)) for each in CORES},
            "queries": {
                name: ServiceCase(LARGEST, self._on(SMALLEST.cores, name)) for name in QUERIES
            },
        }

    def _on(self, cores: int, name: str = READS) -> TrueResident:
        return at(self.truth.applications[name], cores, load_per_second=0.0)

    def _beside_patterns(self, hardware: Hardware, cores: int) -> Iterator[tuple[str, ServiceCase]]:
        service = self._on(cores)
        yield "none", ServiceCase(hardware, service)
        for name, resource in PATTERNS.items():
            source = self.truth.source(hardware.name, resource, 100.0, service)
            if source is not None:
                yield name, ServiceCase(hardware, service, (source,))

    def knees(self, cases: Mapping[str, ServiceCase]) -> dict[str, float]:
        """The largest load with the 99th percentile below ``KNEE_SECONDS``, by case."""
        return {name: self._knee(case) for name, case in cases.items()}

    def _knee(self, case: ServiceCase) -> float:
        low, high = 1.0, 1e7
        for _ in range(40):
            middle = (low * high) ** 0.5
            if self._latency(case, middle) <= KNEE_SECONDS:
                low = middle
            else:
                high = middle
        return low

    def _latency(self, case: ServiceCase, load: float) -> float:
        service = replace(case.service, load_per_second=load)
        return p99_seconds(self.truth, case.hardware.name, service, case.beside)

    def curves(
        self, cases: Mapping[str, ServiceCase], knees: Mapping[str, float]
    ) -> dict[str, Curve]:
        """Latency in ms by thousands a second; those with the same knee are one, with all names."""
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
    """Whether a curve with that knee lies on one of those of the label."""
    return any(abs(np.log(knees[name] / knee)) < SAME for name in label.split(", "))


def _of_kind(service: Application, name: str) -> Application:
    """With queries of that kind."""
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
