"""A server is provisioned for memcached by what its interference profile says.

Source: dissertation 5.5.2, Figure 5.7. memcached at 40,000 queries per second and a bound of 200 µs
on 4 cores, 8 MB of last-level cache, 16 GB and 1 Gb/s; by its profile the server got a third memory
channel with 24 GB and a 10 Gb/s network, and kept its processor. The text has no numbers: it says
that contention for memory and the network went down, time per query and CPU use as well.

Here the profile is made by the profiler on the simulated truth, and each change is what the
profile's own advice names first of what is on offer; it is followed until nothing is left. What the
study changed stands beside it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from wharfinger.experiments import profile_plots
from wharfinger.experiments.ground_truth import (
    GroundTruthStudy,
    Panels,
    Picture,
    StudyFindings,
    at,
    draw_programs,
    p99_seconds,
)
from wharfinger.experiments.ibench_profiler import SimulatedSession, ProfiledWorld
from wharfinger.experiments.physics_plots import curves
from wharfinger.experiments.plots import Curve
from wharfinger.model.interference import SharedResource
from wharfinger.native import beyond
from wharfinger.profiler.choosing import FEATURES, choose
from wharfinger.profiler.report import Document, document_of, minded_most
from wharfinger.profiling.curves import Verdict
from wharfinger.profiling.rounds import Profiler
from wharfinger.simulator.truth.ground_truth import TrueResident, busy_cpus
from wharfinger.simulator.truth.physics.application import Application, Streaming
from wharfinger.simulator.truth.physics.clusters import HARDWARE
from wharfinger.simulator.truth.physics.hardware import GIB, Hardware
from wharfinger.simulator.truth.physics.pools import Pool
from wharfinger.simulator.truth.physics.regimes import Regime
from wharfinger.simulator.truth.physics.sources import source_of
from wharfinger.simulator.truth.physics.truth import Physics

QUERIES_PER_SECOND, BOUND_SECONDS = 40_000.0, 200e-6
CORES = 4.0
TOLERANCE, SECONDS = 0.05, 240.0
_VALUES = Streaming(1200 / 25_000, 1.0, depth=64.0)
"""Of a kilobyte, as in ``ibench_figure54``: with smaller ones, the load takes a tenth of 1 Gb/s."""
NEIGHBORS = (SharedResource.MEMORY_BANDWIDTH, SharedResource.NETWORK_BANDWIDTH)
CASES = ("alone", "beside")
HALF = 50.0
"""Intensity of ``NEIGHBORS``, of what the first server has: they don't grow with the server."""
MICROSECONDS: tuple[float, ...] = tuple(range(121))
_SOURCES = choose("ibench")
_ONE_SOCKET = HARDWARE["m2.2xlarge"]
"""Half of a Xeon X5550 server: a socket, all of whose three channels it has."""
SERVER = replace(
    _ONE_SOCKET,
    name="server",
    cores=2 * _ONE_SOCKET.cores,  # as hardware threads
    smt=True,
    memory_bytes=16 * GIB,
    memory_bandwidth=_ONE_SOCKET.memory_bandwidth * 2 / 3,
    network_bandwidth=0.125,
)


@dataclass(frozen=True, slots=True)
class Offer:
    """A change of the server that can be had, and the sources whose feature it is."""

    name: str
    sources: frozenset[SharedResource]
    change: Callable[[Hardware], Hardware]


def _with_channel(server: Hardware) -> Hardware:
    bandwidth, memory = server.memory_bandwidth * 3 / 2, server.memory_bytes * 3 // 2
    return replace(server, memory_bandwidth=bandwidth, memory_bytes=memory)


def _with_network(server: Hardware) -> Hardware:
    return replace(server, network_bandwidth=10 * server.network_bandwidth)


def _with_disk(server: Hardware) -> Hardware:
    return replace(server, disk_bandwidth=4 * server.disk_bandwidth)


R = SharedResource
MEMORY = Offer("third-channel", frozenset({R.MEMORY_BANDWIDTH, R.MEMORY_CAPACITY}), _with_channel)
NETWORK = Offer("10-gigabit", frozenset({R.NETWORK_BANDWIDTH}), _with_network)
STORAGE = Offer("disks", frozenset({R.STORAGE_BANDWIDTH, R.STORAGE_CAPACITY}), _with_disk)
OFFERS = (MEMORY, NETWORK, STORAGE)
"""The processor stays, as in the study: its caches and cores are not on offer."""
PUBLISHED = (MEMORY, NETWORK)


# --- one server ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Provisioned:
    """memcached on the server after some changes.

    One name for the server in all of them, so that how well it suits the program is the same.
    """

    application: Application
    regime: Regime
    changes: tuple[Offer, ...] = ()

    @property
    def name(self) -> str:
        """The last change."""
        return self.changes[-1].name if self.changes else "default"

    @cached_property
    def truth(self) -> Physics:
        """The ground truth with that server."""
        server = SERVER
        for change in self.changes:
            server = change.change(server)
        programs = [self.application, *(each for each, _ in neighbors(self.regime))]
        return Physics([server], programs, replace(self.regime.constants, smt=True))

    @property
    def service(self) -> TrueResident:
        """At its load."""
        return at(self.application, CORES, load_per_second=QUERIES_PER_SECOND)

    def p99(self, beside: Sequence[TrueResident] = ()) -> float:
        """Seconds."""
        return p99_seconds(self.truth, SERVER.name, self.service, beside)

    def cases(self) -> dict[str, list[TrueResident]]:
        """Who is beside it, by ``CASES``."""
        return dict(zip(CASES, ([], [each for _, each in neighbors(self.regime)]), strict=True))

    def profile(self, random: np.random.Generator) -> Document:
        """By the profiler."""
        session = SimulatedSession(_Latency(self), random)
        profiler = Profiler(
            session, _SOURCES, tolerance=TOLERANCE, seconds=SECONDS, cpus=int(CORES),
            tell=lambda _words: None,
        )  # fmt: skip
        # Sources of the ground truth run on other cores and threads.
        return document_of(profiler.profile(), {"name": "memcached"}, shares_cpu=False)


class _Latency(ProfiledWorld):
    """Performance is the inverse of the 99th percentile."""

    def __init__(self, server: Provisioned) -> None:
        self._server = server
        super().__init__(server.truth, server.service, SERVER.name)

    def performance(self, beside: Sequence[TrueResident]) -> float:
        return 1 / self._server.p99(beside)


def neighbors(regime: Regime) -> list[tuple[Application, TrueResident]]:
    """Two that ask for as much on every server as is half of what the first one has."""
    bandwidth = SERVER.memory_bandwidth * regime.constants.bandwidth
    server, both = replace(SERVER, memory_bandwidth=bandwidth), []
    for resource in NEIGHBORS:
        source, most_per_ns = source_of(resource, HALF, server, CORES)
        threads, load = float(source.threads), most_per_ns * 1e9
        both.append((source, at(source, threads, load_per_second=load)))
    return both


def numbers_of(now: Provisioned, beside: Sequence[TrueResident]) -> Iterator[tuple[str, float]]:
    """Time per query and CPU use with these beside it."""
    group = [now.service, *beside]
    rates = now.truth.rates(SERVER.name, group)
    used = now.truth.used_millicpus(SERVER.name, group, rates)[0] / 1000
    instructions = now.application.query_instructions
    yield "p50", _longest(now, rates[0], used, 0.5) * 1e6
    yield "p99", now.p99(beside) * 1e6
    yield "in-time", 1 - _later(now, rates[0], used, BOUND_SECONDS)
    yield "cpu-use", used / CORES
    answered = min(rates[0], QUERIES_PER_SECOND)
    yield "cycles-per-instruction", used * SERVER.clock_ghz * 1e9 / answered / instructions


def _later(now: Provisioned, could: float, used: float, seconds: float) -> float:
    """Share of the queries that take longer."""
    load = QUERIES_PER_SECOND / could
    if load >= 1:
        return 1.0
    workers = max(1.0, busy_cpus(now.service, could, 1000 * used))
    variation = now.truth.queue(now.application.name).variation
    return beyond(load, workers, variation, seconds * could / workers)


def _longest(now: Provisioned, could: float, used: float, share: float) -> float:
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (
            (middle, high) if _later(now, could, used, middle) > 1 - share else (low, middle)
        )
    return high


def times_of(now: Provisioned, beside: Sequence[TrueResident]) -> Curve:
    """Share of the queries answered by then, in percent."""
    group = [now.service, *beside]
    rates = now.truth.rates(SERVER.name, group)
    used = now.truth.used_millicpus(SERVER.name, group, rates)[0] / 1000
    by_then = [1 - _later(now, rates[0], used, each * 1e-6) for each in MICROSECONDS]
    return MICROSECONDS, 100 * np.array(by_then)


# --- what the profile says ----------------------------------------------------------------------


def in_order_of_advice(profile: Document) -> Iterator[str]:
    """Sources that slow it: which the advice names first, then the next if that were not there."""
    rows = [row for row in profile["sources"] if row["verdict"] == Verdict.SLOWED.value]
    while rows:
        most, _ = minded_most(rows, shares_cpu=False)
        yield most["name"]
        rows = [row for row in rows if row is not most]


def next_offer(profile: Document, taken: Iterable[Offer]) -> tuple[Offer | None, list[str]]:
    """The first on offer by the profile's advice, and the sources named before it."""
    before: list[str] = []
    for name in in_order_of_advice(profile):
        for offer in OFFERS:
            if name in offer.sources and offer not in taken:
                return offer, before
        before.append(name)
    return None, before


def look(regime: Regime, seed: int) -> StudyFindings:
    """The server, and each that the profile of the one before asks for."""
    drawn = draw_programs([Pool.MEMCACHED], regime, seed)[0]
    random = np.random.default_rng([seed, 57])
    server = first = Provisioned(replace(drawn, network=_VALUES), regime)
    steps: list[tuple[Provisioned, Document]] = []
    said: list[str] = []
    numbers: dict[str, float] = {}
    while True:
        profile = server.profile(random)
        steps.append((server, profile))
        offer, passed_over = next_offer(profile, server.changes)
        said.append(_sentence(server, profile, offer, passed_over))
        for each in OFFERS:
            numbers[f"advice-{len(steps)}/{each.name}"] = float(offer is each)
        if offer is None:
            break
        server = replace(server, changes=(*server.changes, offer))
    for step, (_, profile) in enumerate(steps):
        numbers |= _told(step, profile)
    servers = {_label(step, each): each for step, (each, _) in enumerate(steps)}
    profiles = {_label(step, server): profile for step, (server, profile) in enumerate(steps)}
    for step, (_, profile) in enumerate(steps):
        numbers |= _told(step, profile)
    published = {"published": replace(first, changes=PUBLISHED)}
    numbers |= _measured({**servers, **published})
    if set(server.changes) != set(PUBLISHED):
        servers |= published
        said.append("The study's changes are not those of the advice; both are shown.")
    return StudyFindings(numbers, _panels(servers, profiles), tuple(said))


def _label(step: int, server: Provisioned) -> str:
    return f"{step}: {server.name}"


def _sentence(
    server: Provisioned, profile: Document, offer: Offer | None, passed_over: Sequence[str]
) -> str:
    advice = profile["sentences"][-1]
    words = f"First population, server {server.name}: {advice}"
    if passed_over:
        features = "; ".join(dict.fromkeys(FEATURES[name] for name in passed_over))
        words += f" Not on offer or taken already: {features}."
    return f"{words} Changed next: {offer.name if offer else 'nothing'}."


def _told(step: int, profile: Document) -> Iterator[tuple[str, float]]:
    for row in profile["sources"]:
        for kind in ("tolerated", "caused"):
            if row[kind] is not None:
                yield f"profile-{step}/{row['name']}/{kind}", row[kind]["value"]


def _measured(servers: Mapping[str, Provisioned]) -> Iterator[tuple[str, float]]:
    """Of each server but the published one as measured, and over the first as a change."""
    first: dict[str, float] = {}
    for name, server in servers.items():
        step = name.partition(":")[0]
        for where, beside in server.cases().items():
            for what, value in numbers_of(server, beside):
                before = first.setdefault(f"{where}/{what}", value)
                if step != "published":
                    yield f"server-{step}/{where}/{what}", value
                if server.changes:
                    yield f"change-{step}/{where}/{what}", value / before - 1


def _panels(
    servers: Mapping[str, Provisioned], profiles: Mapping[str, Document]
) -> dict[str, Panels]:
    used = {
        where: {
            name: 100 * dict(numbers_of(server, server.cases()[where]))["cpu-use"]
            for name, server in servers.items()
        }
        for where in CASES
    }
    return {
        "profile": {
            kind: {name: _scores(profile, kind) for name, profile in profiles.items()}
            for kind in ("tolerated", "caused")
        },
        "time-per-query": {
            where: {
                name: times_of(server, server.cases()[where]) for name, server in servers.items()
            }
            for where in CASES
        },
        "cpu-use": used,
    }


def _scores(profile: Document, kind: str) -> dict[str, float]:
    return {row["name"]: row[kind]["value"] for row in profile["sources"] if row[kind]}


IBENCH_FIGURE57 = GroundTruthStudy(
    name="ibench-figure57",
    about="a server for memcached, changed step by step as its interference profile says",
    source="dissertation 5.5.2, Figure 5.7 (the text has no numbers)",
    measure=look,
    units={
        "advice-*": "share of populations",
        "profile-*": "points",
        "change-*": "of the first server's",
        "*/p50": "µs",
        "*/p99": "µs",
        "*/cycles-per-instruction": "cycles",
    },
    notes=(
        "The server has hardware threads whatever the regime says, else nothing shares a core.",
        (
            "A source's intensity is a share of what the server has, so it presses harder on a "
            "larger one; beside = neighbors that ask for as much on every server."
        ),
        "published: the third memory channel with 24 GB and the 10 Gb/s network.",
    ),
    pictures=(
        Picture("profile", profile_plots.profiles, "memcached's interference profile"),
        Picture(
            "time-per-query",
            curves,
            "Queries answered within a time",
            {"axes_labels": ("time (µs)", "queries (%)"), "limits": (0.0, 103.0),
             "legend": "lower right"},
        ),
        Picture("cpu-use", profile_plots.bars_of, "CPU use at 40,000 queries/s",
                {"ylabel": "of four cores (%)"}),
    ),
)  # fmt: skip
