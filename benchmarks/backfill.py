"""What backfilling costs the core: events with 1,000 workloads waiting behind a blocked one.

    python -m benchmarks.backfill --rounds 50

An arrival behind them, and the end of what runs, with `fifo` (32 are tried) against
`fifo[backfill=0]` (the peer). Ends are known; under `quasar` all are classified.
"""

import time
from dataclasses import dataclass
from random import Random

from benchmarks._harness import arguments, report, spread
from benchmarks.core import ByItsLike, classification
from wharfinger.core import events as ev
from wharfinger.core.pipeline import Core
from wharfinger.model.platform import Platform, Server
from wharfinger.model.view import Capabilities
from wharfinger.model.workload import Reservation, Run, Target, Workload, WorkloadType
from wharfinger.policies.registry import make_policy

SERVERS = (100, 1_000)
WAITING = 1_000
RESIDENT_MILLICPUS = 1700


@dataclass(slots=True)
class Blocked:
    """A full cluster, and how many run on it."""

    manager: Core
    random: Random
    predicts: bool
    running: int = 0

    def submit(self, name: str, cpu_millicpus: int) -> bool:
        """Whether it was placed; then it runs."""
        rate = Target(rate_per_second=cpu_millicpus / 10) if self.predicts else None
        asked = Workload(
            name,
            WorkloadType.BATCH,
            Run(("true",)),
            target=rate,
            reservation=Reservation(cpu_millicpus, 2**20),
            expected_seconds=100.0,
        )
        self.manager.handle(1.0, ev.WorkloadSubmitted(asked))
        if self.predicts:
            key = self.manager.find(name).key
            self.manager.handle(1.0, ev.WorkloadClassified(key, classification(self.random)))
        record = self.manager.find(name)
        if record.placements:
            self.manager.handle(1.0, ev.WorkloadStarted(record.key, "none"))
        return bool(record.placements)


def fill(policy: str, servers: int, backfill: int, seed: int) -> Blocked:
    """Until the first finds no room."""
    predicts = policy == "quasar"
    planner = ByItsLike() if predicts else None
    made = make_policy(policy, admission=f"fifo[backfill={backfill}]", estimation=planner)
    cluster = Blocked(Core(made), Random(seed), predicts)
    manager = cluster.manager
    manager.handle(0.0, manager.started("n", "0", "none", Capabilities()))
    platform = Platform("drawn", "x86_64", "", 8000, 2**34)
    for at in range(servers):
        manager.handle(0.0, ev.ServerReported(Server(f"s{at}", platform, 8000, 2**34)))
    manager.handle(0.0, ev.EngineSynced((), tuple(manager.state.servers)))
    while cluster.submit(f"r{cluster.running}", RESIDENT_MILLICPUS):
        cluster.running += 1
    return cluster


def run(policy: str, servers: int, backfill: int, rounds: int, seed: int) -> dict[str, object]:
    cluster = fill(policy, servers, backfill, seed)
    arrivals, ends = [], []
    for at in range(WAITING):
        begin = time.perf_counter()
        cluster.submit(f"w{at}", cluster.random.choice((1500, 1700, 2500, 3500)))
        arrivals.append(time.perf_counter() - begin)
    for at in range(0, cluster.running, max(1, cluster.running // rounds)):
        key = cluster.manager.find(f"r{at}").key
        begin = time.perf_counter()
        cluster.manager.handle(5.0, ev.WorkloadFinished(key, 0, None, "exited"))
        ends.append(time.perf_counter() - begin)
    return {
        "policy": policy,
        "servers": servers,
        "backfill": backfill,
        "arrival_seconds": spread(arrivals),
        "end_seconds": spread(ends),
    }


def main() -> None:
    options = arguments("Cost of events behind a blocked head, with backfilling and without.")
    results = [
        run(policy, servers, backfill, options.rounds, options.seed)
        for policy in ("least-loaded", "quasar")
        for servers in SERVERS
        for backfill in (0, 32)
    ]
    report("backfill", options, results)


if __name__ == "__main__":
    main()
