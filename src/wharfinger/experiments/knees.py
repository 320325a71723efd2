"""How much load a memcached keeps up with: curves of latency by throughput, and where they bend.

The second row of Quasar's Figure 2; ``quasar_figure2`` calls it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from wharfinger.experiments.ground_truth import at, p99_seconds
from wharfinger.model.interference import SharedResource
from wharfinger.simulator.kernel.streams import Streams
from wharfinger.simulator.truth.ground_truth import Resident
from wharfinger.simulator.truth.physics.application import Application, Serving, Streaming
from wharfinger.simulator.truth.physics.clusters import QUASAR
from wharfinger.simulator.truth.physics.hardware import GIB, Hardware
from wharfinger.simulator.truth.physics.pools import Pool, draw_pool
from wharfinger.simulator.truth.physics.regimes import Regime
from wharfinger.simulator.truth.physics.truth import Physics

if TYPE_CHECKING:
    from collections.abc import Callable

    from wharfinger.experiments.physics_plots import Curve

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
_SAME = 0.03
"""Of knees, in their logarithm: closer curves are drawn as one."""


class Memcached:
    """The service of the population, and its curves of latency by throughput.

    Args:
        regime: Of the physics.
        seed: Of the population.
    """

    def __init__(self, regime: Regime, seed: int) -> None:
        drawn = replace(
            draw_pool(Pool.MEMCACHED, regime, Streams(seed))[0],
            footprint_bytes=MEMORY_OF_SERVICE,
        )
        kinds = [_of_kind(drawn, name) for name in QUERIES]
        self.truth = Physics(QUASAR, [drawn, *kinds], regime.constants)
        self.curves: dict[str, dict[str, Curve]] = {}

    def platforms(self) -> dict[str, float]:
        """With as many cores of each server as the smallest has."""
        two = self._on(SMALLEST.cores)
        return self._panel("servers", {each.name.upper(): (each, two, None) for each in QUASAR})

    def interference(self, hardware: Hardware, cores: int) -> dict[str, float]:
        """On so many cores of a server, beside each pattern at full intensity."""
        service = self._on(cores)
        cases: dict[str, tuple[Hardware, Resident, SharedResource | None]] = {
            "none": (hardware, service, None)
        }
        for name, resource in PATTERNS.items():
            if self.truth.source(hardware.name, resource, 100.0, service) is not None:
                cases[name] = (hardware, service, resource)
        return self._panel(f"interference on {hardware.name.upper()}", cases)

    def cores(self) -> dict[str, float]:
        """Of the largest server, so many."""
        return self._panel(
            "cores of J", {str(each): (LARGEST, self._on(each), None) for each in CORES}
        )

    def queries(self) -> dict[str, float]:
        """Of each kind, on as many cores of J as the smallest has."""
        return self._panel(
            "queries",
            {name: (LARGEST, self._on(SMALLEST.cores, name), None) for name in QUERIES},
        )

    def _on(self, cores: int, name: str = READS) -> Resident:
        application = self.truth.applications[name]
        return at(application, cores, load_per_second=0.0)

    def _panel(
        self, panel: str, cases: Mapping[str, tuple[Hardware, Resident, SharedResource | None]]
    ) -> dict[str, float]:
        """Knees by case; the curves are kept for the picture."""
        knees = {}
        kept = self.curves.setdefault(panel, {})
        for name, (hardware, service, resource) in cases.items():
            source = resource and self.truth.source(hardware.name, resource, 100.0, service)
            beside = [source] if source else []
            latency = partial(self._latency, hardware, service, beside)
            knees[name] = knee = _knee(latency)
            if (same := _same(knees, name)) is not None:
                label = next(each for each in kept if same in each.split(", "))
                kept[f"{label}, {name}"] = kept.pop(label)
                continue
            loads = knee * np.array([*np.linspace(0.1, 0.9, 9), 0.95, 0.98, 1.0, 1.01, 1.02])
            kept[name] = (
                (loads / 1e3).tolist(), np.array([latency(load) for load in loads]) * 1e3,
            )  # fmt: skip
        return knees

    def _latency(
        self, hardware: Hardware, service: Resident, beside: Sequence[Resident], load: float
    ) -> float:
        return p99_seconds(
            self.truth, hardware.name, replace(service, load_per_second=load), beside
        )


def _same(knees: Mapping[str, float], name: str) -> str | None:
    """Another with a knee so near that its curve lies on this one."""
    return next(
        (
            other
            for other, knee in knees.items()
            if other != name and abs(np.log(knee / knees[name])) < _SAME
        ),
        None,
    )


def _of_kind(service: Application, name: str) -> Application:
    """With queries of that kind."""
    instructions, size, waits = QUERIES[name]
    assert service.serving is not None
    return replace(
        service,
        name=name,
        contention=service.contention + waits,
        network=Streaming(
            size / instructions, service.network.own_bandwidth, service.network.depth
        ),
        serving=Serving(instructions, service.serving.variation),
    )


def _knee(latency: "Callable[[float], float]") -> float:
    """The largest load with the 99th percentile below ``KNEE_SECONDS``."""
    low, high = 1.0, 1e7
    for _ in range(40):
        middle = (low * high) ** 0.5
        if latency(middle) <= KNEE_SECONDS:
            low = middle
        else:
            high = middle
    return low
