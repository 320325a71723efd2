"""What a workload's whole life costs the core, by policy and by how many servers there are.

    python -m benchmarks.scale --servers 1000,10000,100000 --workloads 3000

Servers of three sizes are given work until 70% of their CPU is allocated; from then on one
workload is submitted, placed and started, another ends and a third is forgotten. After each event
the core is asked when it wants to wake, as an engine's loop does. With ``--crowded`` there is room
for nobody and a line of ``--waiting``: one ends, and the next in line takes its place.

Beside each policy stands its peer, the same policy without the load index (it scans), and the
floor, the same events made and handed to nobody. Memory is what Python and NumPy have allocated
for the servers, for those who run, and for those who have ended and keep their record.
"""

import argparse
import gc
import json
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random

from benchmarks._harness import machine, spread
from wharfinger.core import events as ev
from wharfinger.core.lifecycle import Phase
from wharfinger.core.pipeline import Core
from wharfinger.core.seams.placement import PlacementPolicy
from wharfinger.core.seams.policy import Policy
from wharfinger.core.settings import CoreSettings
from wharfinger.core.state import ManagerState, WorkloadRecord
from wharfinger.model.allocation import Allocation, Placement
from wharfinger.model.decisions import Place, Refuse
from wharfinger.model.platform import Platform, Server
from wharfinger.model.view import Capabilities, Request, View
from wharfinger.model.workload import Reservation, Run, Workload, WorkloadType
from wharfinger.policies.registry import make_policy

GIB = 2**30
ALLOCATED = 0.7
PLATFORMS = (
    Platform("small", "x86_64", "", 2_000, 8 * GIB),
    Platform("usual", "x86_64", "", 4_000, 16 * GIB),
    Platform("large", "x86_64", "", 8_000, 64 * GIB),
)
ASKED_MILLICPUS = (250, 500, 1_000, 1_500, 2_000)
CHUNKS = 10


class Scanning:
    """A placement that is shown no index."""

    def __init__(self, placement: PlacementPolicy) -> None:
        self._placement = placement
        self.name = placement.name
        self.settings = placement.settings

    def index(self) -> None:
        return None

    def place(self, request: Request, view: View) -> Place | Refuse:
        return self._placement.place(request, replace(view, loads=None, index=None))

    def resize(
        self, request: Request, placements: tuple[Placement, ...], view: View
    ) -> Place | Refuse | None:
        return self._placement.resize(request, placements, view)


def server(at: int) -> Server:
    platform = PLATFORMS[at % len(PLATFORMS)]
    return Server(f"s{at}", platform, platform.cpu_millicpus, platform.memory_bytes)


def workload(name: str, random: Random) -> Workload:
    cpu = random.choice(ASKED_MILLICPUS)
    memory = int(cpu * random.uniform(0.5, 2.5) * GIB / 1000)
    return Workload(name, WorkloadType.BATCH, Run(("true",)), reservation=Reservation(cpu, memory))


def running(uid: int, asked: Workload, server: str) -> WorkloadRecord:
    """One that runs there already, as a snapshot has it."""
    given = Allocation(asked.reservation.cpu_millicpus, asked.reservation.memory_bytes)
    return WorkloadRecord(
        asked,
        uid,
        0.0,
        phase=Phase.RUNNING,
        queue="guaranteed",
        key=f"{uid}-1-n",
        placements=(Placement(server, given),),
        attempts=1,
        starts=1,
        started_at=0.0,
    )


def loaded(servers: int, share: float, random: Random) -> ManagerState:
    """A cluster of this many servers, this share of whose CPU is allocated."""
    state = ManagerState(nonces=["n"], capabilities=Capabilities(), synced=True)
    state.servers = {made.name: made for made in map(server, range(servers))}
    for name, there in state.servers.items():
        cpu, memory = int(there.cpu_millicpus * share), there.memory_bytes
        while True:
            asked = workload(f"r{state.next_uid}", random)
            cpu -= asked.reservation.cpu_millicpus
            memory -= asked.reservation.memory_bytes
            if cpu < 0 or memory < 0:
                break
            state.workloads[asked.name] = running(state.next_uid, asked, name)
            state.next_uid += 1
    return state


@dataclass
class Life:
    """A cluster that is driven: who comes, who runs, who ends.

    Attributes:
        manager: Takes the events in; ``None`` = nobody does.
        running: Key and thousandths of a CPU of each that runs.
        free: Thousandths of a CPU that may be allocated still, to be at ``ALLOCATED``.
    """

    manager: Core | None
    random: Random
    running: list[tuple[str, int]]
    free: int
    now: float = 1.0
    made: int = 0
    asked: dict[str, int] = field(default_factory=dict)

    def tell(self, event: ev.Report | ev.ClientRequest) -> list[str]:
        """One event; the keys of those who are to be started."""
        self.now += 0.01
        if self.manager is None:
            return []
        step = self.manager.handle(self.now, event)
        self.manager.wake_at(self.now)
        return [e.key for e in step.events if isinstance(e, ev.WorkloadPlaced)]

    def come(self) -> None:
        """One is submitted, and starts where there is room."""
        self.made += 1
        made = workload(f"w{self.made}", self.random)
        self.asked[made.name] = made.reservation.cpu_millicpus
        self.start(self.tell(ev.WorkloadSubmitted(made)))

    def start(self, keys: list[str]) -> None:
        for key in keys:
            self.tell(ev.StartAccepted(key))
            self.tell(ev.WorkloadStarted(key, "none"))
            assert self.manager is not None
            record = self.manager.record_of(key)
            assert record is not None
            cpu = self.asked[record.name]
            self.free -= cpu
            self.running.append((key, cpu))

    def end(self) -> None:
        """One of those who run ends, whichever."""
        at = self.random.randrange(len(self.running))
        self.running[at], self.running[-1] = self.running[-1], self.running[at]
        key, cpu = self.running.pop()
        self.free += cpu
        self.start(self.tell(ev.WorkloadFinished(key, 0, None, "exited")))

    def turn(self) -> None:
        """One comes and, to keep the load, others go."""
        self.come()
        while self.free < 0 and self.running:
            self.end()

    def replace_one(self) -> None:
        """One goes, whoever waits first takes the room, and another one joins the line."""
        self.end()
        self.come()

    def only_events(self) -> None:
        """The events of one life, made and handed to nobody."""
        self.made += 1
        self.tell(ev.WorkloadSubmitted(workload(f"w{self.made}", self.random)))
        self.tell(ev.StartAccepted("1-1-n"))
        self.tell(ev.WorkloadStarted("1-1-n", "none"))
        self.tell(ev.WorkloadFinished("1-1-n", 0, None, "exited"))


def life(servers: int, policy: Policy, options: argparse.Namespace) -> Life:
    random = Random(options.seed)
    state = loaded(servers, 1.0 if options.crowded else ALLOCATED, random)
    there = [(r.key, r.placements[0].allocation.cpu_millicpus) for r in state.workloads.values()]
    manager = Core(policy, state=state, settings=CoreSettings(keep_ended=options.keep_ended))
    begun = Life(manager, random, there, 0)
    for _ in range(options.waiting if options.crowded else 0):
        begun.come()
    return begun


def timed(turn: Callable[[], None], workloads: int, warm_up: int) -> dict[str, float]:
    """CPU time, in microseconds per workload: least, median and largest over parts of the run."""
    each = max(1, workloads // CHUNKS)
    for _ in range(warm_up):
        turn()
    gc.collect()
    found = []
    for _ in range(CHUNKS):
        begin = time.process_time()
        for _ in range(each):
            turn()
        found.append((time.process_time() - begin) / each * 1e6)
    return {name: round(value, 1) for name, value in spread(found).items()}


def run(servers: int, options: argparse.Namespace) -> dict[str, object]:
    found: dict[str, object] = {}
    policies = {name: make_policy(name) for name in options.policies.split(",")}
    for name, policy in policies.items():
        contenders = {name: policy}
        if not options.no_peer:
            scanning = Scanning(policy.placement)
            contenders[f"{name}, scanning"] = replace(policy, placement=scanning)
        for called, contender in contenders.items():
            driven = life(servers, contender, options)
            turn = driven.replace_one if options.crowded else driven.turn
            found[called] = timed(turn, options.workloads, 2 * options.keep_ended)
            del driven, turn
            gc.collect()
    floor = Life(None, Random(options.seed), [], 0)
    found["events alone"] = timed(floor.only_events, options.workloads, 100)
    return {"servers": servers, "microseconds_per_workload": found}


def memory(servers: int, options: argparse.Namespace) -> dict[str, object]:
    """Bytes that are allocated for each server, each that runs, and each that has ended."""
    options = argparse.Namespace(**{**vars(options), "keep_ended": 10**9})
    tracemalloc.start()
    settings = CoreSettings(keep_ended=10**9)
    manager = Core(make_policy("least-loaded"), settings=settings)
    manager.handle(0.0, manager.started("n", "0", "none", Capabilities()))
    for at in range(servers):
        manager.handle(0.0, ev.ServerReported(server(at)))
    manager.handle(0.0, ev.EngineSynced((), tuple(manager.state.servers)))
    before = tracemalloc.get_traced_memory()[0]
    driven = Life(manager, Random(options.seed), [], 0)
    count = servers
    for _ in range(count):
        driven.come()
    running = tracemalloc.get_traced_memory()[0]
    while driven.running:
        driven.end()
    ended = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return {
        "servers": servers,
        "bytes_per_server": round(before / servers),
        "bytes_per_running_workload": round((running - before) / count),
        "bytes_per_ended_workload": round((ended - before) / count),
    }


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="A workload's life in the core, by servers.")
    parser.add_argument("--servers", default="1000,10000,100000")
    parser.add_argument("--workloads", type=int, default=3_000, help="of each (default: 3000)")
    parser.add_argument("--policies", default="least-loaded,round-robin")
    parser.add_argument("--keep-ended", type=int, default=200, help="records (default: 200)")
    parser.add_argument("--crowded", action="store_true", help="no room, and a line")
    parser.add_argument("--waiting", type=int, default=1_000, help="how long that line is")
    parser.add_argument("--no-peer", action="store_true", help="leave the scanning ones out")
    parser.add_argument("--memory", action="store_true", help="bytes instead of time")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def main() -> None:
    options = arguments()
    measure = memory if options.memory else run
    sizes = [int(size) for size in options.servers.split(",")]
    results = [measure(size, options) for size in sizes]
    print(json.dumps({"benchmark": "scale", "machine": machine(), "results": results}, indent=2))


if __name__ == "__main__":
    main()
