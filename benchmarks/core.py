"""What a decision and an event cost the core, by policy and size.

    python -m benchmarks.core --rounds 10

Placing: `quasar`, for a workload whose curve and scores are known, against `least-loaded` (the
peer), which looks at room alone, and one pass over as many numbers as it looks at (the floor).
Events: a server reports the performance of those who run on it; nothing is to be done.
Pairs: the same placing at about 5,000 residents that are known by uncertain pair profiles, on each
of several platforms another; with the part of it that is contention.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

import numpy as np

from benchmarks._harness import arguments, compare, report
from wharfinger.core import events as ev
from wharfinger.core.pipeline import Core
from wharfinger.core.seams.estimation import Profiling
from wharfinger.model.decisions import Decision, ReasonCode, Stage
from wharfinger.model.interference import SharedResource
from wharfinger.model.pairs import PairProfile
from wharfinger.model.performance import Quantity, Reading, Sample
from wharfinger.model.platform import Platform, Server
from wharfinger.model.profile import Classification, Curve, Estimate
from wharfinger.model.view import Capabilities, Request, View
from wharfinger.model.workload import Reservation, Run, Target, Workload, WorkloadType
from wharfinger.policies.registry import make_policy

SIZES = (100, 1_000, 10_000)
WITH_PAIRS = 1_667
"""Servers, for 5,000 residents."""
PLATFORMS, FACTORS = 3, 28
"""As many factors as a basis has at most (contention.factors)."""
RESIDENTS = 3
COLUMNS = (250, 500, 1000, 2000, 4000)
SOURCES = (SharedResource.INTEGER, SharedResource.STORAGE_BANDWIDTH)


@dataclass(frozen=True, slots=True)
class Loaded:
    """A manager with classified residents on each server, and one report of one server."""

    manager: Core
    report: ev.ServerMeasured

    def measured(self) -> object:
        self.manager.handle(60.0, self.report)
        return self.manager.wake_at(60.0)


def classification(random: Random) -> Classification:
    """A rate of about 100/s on one CPU, and scores of two sources."""
    rate, slope = random.uniform(80, 120), random.uniform(0.6, 1.0)
    curve = Curve(COLUMNS, tuple(Estimate(rate * (c / 1000) ** slope, 0.1) for c in COLUMNS))
    tolerated = {source: Estimate(random.uniform(40, 100), 10.0) for source in SOURCES}
    caused = {source: Estimate(random.uniform(0, 25), 5.0) for source in SOURCES}
    return Classification("drawn", "1", {Quantity.RATE: curve}, curve, tolerated, caused)


def in_pairs(random: Random) -> Classification:
    """The same, by pair profiles instead of scores; all of them uncertain."""

    def some(most: float) -> tuple[float, ...]:
        return tuple(random.uniform(0, most) for _ in range(FACTORS))

    profiles = {
        f"drawn-{at}": PairProfile(f"b{at}", some(0.05), some(0.1), some(1e-3), some(1e-3))
        for at in range(PLATFORMS)
    }
    return replace(classification(random), tolerated={}, caused={}, pairs=profiles)


Known = Callable[[Random], Classification]


def workload(name: str) -> Workload:
    return Workload(
        name,
        WorkloadType.SINGLE_NODE,
        Run(("true",)),
        target=Target(rate_per_second=100.0),
        reservation=Reservation(1000, 2**28),
    )


class ByItsLike:
    """Everything is classified and nothing is copied."""

    name = "drawn"

    def beside(self, _request: Request, _view: View) -> None:
        """What starts is not profiled."""

    def plan(self, _request: Request, _view: View) -> Profiling:
        return Profiling(Decision(Stage.PROFILING, self.name, True, ReasonCode.OK, "drawn"))


def load(servers: int, seed: int, known_by: Known = classification, platforms: int = 1) -> Loaded:
    """Residents come one by one, are classified, placed and started."""
    random = Random(seed)
    # Residents are known by quasar's contention model, and placed where the load is least.
    contention = make_policy("quasar").contention
    policy = replace(make_policy("least-loaded", estimation=ByItsLike()), contention=contention)
    manager = Core(policy)
    able = Capabilities(measures=True)
    manager.handle(0.0, manager.started("n", "0", "none", able))
    for at in range(servers):
        platform = Platform(f"drawn-{at % platforms}", "x86_64", "", 8000, 2**34)
        manager.handle(0.0, ev.ServerReported(Server(f"s{at}", platform, 8000, 2**34)))
    manager.handle(0.0, ev.EngineSynced((), tuple(manager.state.servers)))
    for at in range(servers * RESIDENTS):
        name = f"w{at}"
        manager.handle(1.0, ev.WorkloadSubmitted(workload(name)))
        known = known_by(random)
        manager.handle(1.0, ev.WorkloadClassified(manager.find(name).key, known))
        manager.handle(1.0, ev.WorkloadStarted(manager.find(name).key, "none"))
    there = [r.key for r in manager.state.workloads.values() if r.placements[0].server == "s0"]
    readings = {Quantity.RATE: Reading(100.0, "x"), Quantity.CPU: Reading(0.9, "x", trusted=False)}
    samples = tuple(Sample(key, readings) for key in there)
    return Loaded(manager, ev.ServerMeasured("s0", samples))


def run(servers: int, rounds: int, seed: int) -> dict[str, object]:
    loaded = load(servers, seed)
    view, random = loaded.manager.view, Random(seed + 1)
    request = Request(workload("asked"), classification=classification(random))
    policies = {name: make_policy(name).placement for name in ("quasar", "least-loaded")}
    columns = np.zeros((4, len(SharedResource), servers))  # as a table by source keeps
    contenders = {
        "quasar": lambda: policies["quasar"].place(request, view),
        "least-loaded": lambda: policies["least-loaded"].place(request, view),
        "memory-read": columns.max,
        "measured-event": loaded.measured,
    }
    summary = compare(contenders, rounds).summary("quasar")
    return {"servers": servers, "residents": len(loaded.manager.state.workloads), **summary}


def run_pairs(servers: int, rounds: int, seed: int) -> dict[str, object]:
    loaded = load(servers, seed, in_pairs, PLATFORMS)
    view, random = loaded.manager.view, Random(seed + 1)
    request = Request(workload("asked"), classification=in_pairs(random))
    quasar, able = make_policy("quasar").placement, np.ones(servers, dtype=np.bool_)

    def contention() -> object:
        assert view.contention is not None
        return view.contention.assess(request, view, 0.8).cost(able, None)

    columns = np.ones((servers * RESIDENTS, 3, FACTORS))  # as a table by pair keeps
    contenders = {
        "quasar": lambda: quasar.place(request, view),
        "contention": contention,
        "memory-read": columns.max,
    }
    summary = compare(contenders, rounds).summary("quasar")
    return {"servers": servers, "residents": len(loaded.manager.state.workloads), **summary}


def main() -> None:
    options = arguments("Cost of a decision and of an event, against least-loaded and a read.")
    results = [run(size, options.rounds, options.seed) for size in SIZES]
    pairs = {"pairs": True, **run_pairs(WITH_PAIRS, options.rounds, options.seed)}
    report("core", options, [*results, pairs])


if __name__ == "__main__":
    main()
