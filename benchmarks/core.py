"""What a decision and an event cost the core, by policy and size.

    python benchmarks/core.py --rounds 10

Placing: `quasar`, for a workload whose curve and scores are known, against `least-loaded` (the
peer), which looks at room alone, and one pass over as many numbers as it looks at (the floor).
Events: a server reports the performance of those who run on it; nothing is to be done.
"""

from dataclasses import dataclass, replace
from random import Random

import numpy as np
from _harness import arguments, compare, report

from wharfinger.core import events as ev
from wharfinger.core.pipeline import Core
from wharfinger.core.seams.estimation import Profiling
from wharfinger.model.decisions import Decision, ReasonCode, Stage
from wharfinger.model.interference import SharedResource
from wharfinger.model.performance import Quantity, Reading, Sample
from wharfinger.model.platform import Platform, Server
from wharfinger.model.profile import Classification, Curve, Estimate
from wharfinger.model.view import Capabilities, Request, View
from wharfinger.model.workload import Reservation, Run, Target, Workload, WorkloadType
from wharfinger.policies.registry import make_policy

SIZES = (100, 1_000, 10_000)
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

    def plan(self, _request: Request, _view: View) -> Profiling:
        return Profiling(Decision(Stage.PROFILING, self.name, True, ReasonCode.OK, "drawn"))


def load(servers: int, seed: int) -> Loaded:
    """Residents come one by one, are classified, placed and started."""
    random = Random(seed)
    # Residents are known by quasar's contention model, and placed where the load is least.
    contention = make_policy("quasar").contention
    policy = replace(make_policy("least-loaded", estimation=ByItsLike()), contention=contention)
    manager = Core(policy)
    able = Capabilities(measures=True)
    manager.handle(0.0, manager.started("n", "0", "none", able))
    platform = Platform("drawn", "x86_64", "", 8000, 2**34)
    for at in range(servers):
        manager.handle(0.0, ev.ServerReported(Server(f"s{at}", platform, 8000, 2**34)))
    manager.handle(0.0, ev.EngineSynced((), tuple(manager.state.servers)))
    for at in range(servers * RESIDENTS):
        name = f"w{at}"
        manager.handle(1.0, ev.WorkloadSubmitted(workload(name)))
        known = classification(random)
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


def main() -> None:
    options = arguments("Cost of a decision and of an event, against least-loaded and a read.")
    report("core", options, [run(size, options.rounds, options.seed) for size in SIZES])


if __name__ == "__main__":
    main()
