"""What an admission's decisions cost: ten queues, 10,000 waiting, by the number of servers.

    python -m benchmarks.admission --rounds 2000 [--whole]

`enqueue`, `review` and `servers` of `arq`, each beside `fifo` (the peer) and an empty call (the
floor); and a refit of all queues. 200 workloads of each queue hold resources. Half of the servers
are empty, or none has room (`full`). With `--whole`, too: a whole run of Paragon's oversubscribed
cluster, 8,500 workloads on 1,000 servers, each in a process of its own.

Times are those of the CPU, the clock's own (the floor) included. Where other work shares the CPU
its caches are cold after each switch: so each question is asked a few times, and `quiet_p99` is of
the least of these. `first_` are of the first time that each is asked: later on it is known what
platforms and the profile say of a workload, as it is when it is placed or reviewed.
"""

import resource
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from multiprocessing import get_context
from random import Random

import numpy as np

from benchmarks._harness import parser, report
from wharfinger.contention.combined import Combined
from wharfinger.core.ordered import Ordered
from wharfinger.core.queues import QueueEntry
from wharfinger.core.seams.admission import AdmissionPolicy, AdmissionView, Positions
from wharfinger.core.seams.contention import Resident
from wharfinger.model.interference import SharedResource
from wharfinger.model.performance import Quantity
from wharfinger.model.profile import Classification, Entry, Estimate, Measurements
from wharfinger.model.queue_accounts import KEPT, QueueAccount
from wharfinger.model.view import Request, View
from wharfinger.model.workload import Reservation, Run, Target, Workload, WorkloadType
from wharfinger.policies.registry import make_policy
from wharfinger.simulator.run import RunSpec, prepare
from wharfinger.testing.policy import PLATFORMS, make_view

SERVERS = (100, 1_000, 10_000)
WAITING = 1_000
"""In each of ten queues."""
HOLDING = 200
TIMES = 5
"""That each question is asked."""
NOW = 1e6


def scores(random: Random) -> Classification:
    """A program's, drawn."""
    tolerated = {source: Estimate(random.uniform(30, 100), 5.0) for source in SharedResource}
    caused = {source: Estimate(random.uniform(0, 70), 5.0) for source in SharedResource}
    platforms = {name: Estimate(random.uniform(0.4, 1.5), 0.1) for name in PLATFORMS}
    known = {"tolerated": tolerated, "caused": caused, "platforms": platforms}
    return Classification("drawn", "1", platform="profiled", **known)


def cluster(servers: int, random: Random, *, full: bool) -> View:
    """Half of the servers have a resident, or all; it holds all of a ``full`` one."""
    made, table = make_view(random, servers), Combined().table()
    for row in range(servers):
        resident = Resident(f"r{row}", row, scores(random), False, 0.05)
        table.put(row, "usual", [resident] if row % 2 or full else [])
    room, none = np.full(servers, 8000), np.zeros(servers, dtype=np.int64)
    return replace(
        made,
        largest=np.full(len(PLATFORMS), 8000),
        accepting=np.ones(servers, dtype=np.uint8),
        unsettled=np.zeros(servers, dtype=np.uint8),
        cpu_capacity=room,
        cpu_allocated=room if full else none,
        memory_capacity=np.full(servers, 2**34),
        memory_allocated=none,
        residents=np.ones(servers, dtype=np.int64) if full else np.arange(servers) % 2,
        contention=table,
    )


def asks(random: Random) -> Request:
    """Of one that was measured to take so long, and reaches its target."""
    work = random.uniform(100, 5000)
    program = Workload(
        "w",
        WorkloadType.BATCH,
        Run(("true",)),
        target=Target(rate_per_second=1.0),
        reservation=Reservation(1000, 2**20),
        priority=random.choice((-1, 0, 1)),
    )
    known = Measurements({Quantity.RATE: {1000: Entry(1.0), 2000: Entry(0.9)}}, total=work)
    return Request(program, classification=scores(random), measurements=known)


def lines(queues: tuple[str, ...], random: Random) -> Positions:
    """How many are served before one, as the core knows it."""
    waiting: dict[str, Ordered[QueueEntry]] = {
        queue: Ordered((-random.choice((-1, 0, 1)), 0.0, at, f"w{at}") for at in range(WAITING))
        for queue in queues
    }

    def before(queues: Sequence[str], priority: int, rank: float, name: str) -> list[int]:
        entry = (-priority, rank, sys.maxsize, name)
        return [waiting[queue].before(entry) for queue in queues]

    return before


def account(random: Random) -> QueueAccount:
    """A queue's, with as many busy periods as are kept."""
    made = QueueAccount()
    for at in range(KEPT):
        came = NOW - 10.0 * (KEPT - at)
        made.arrive(came, random.random() / 2)
        made.place(f"e{at}", came)
        made.end(f"e{at}", came + random.gammavariate(2.0, 300.0), has_run=True)
    for at in range(HOLDING):
        made.place(f"p{at}", NOW - random.gammavariate(2.0, 300.0))
    return made


def timed(ask: Callable[[Request], object], asked: list[Request]) -> dict[str, float]:
    """Microseconds of each question."""
    took = np.zeros((TIMES, len(asked)))
    for each in took:
        for at, request in enumerate(asked):
            begin = time.thread_time_ns()
            ask(request)
            each[at] = (time.thread_time_ns() - begin) / 1e3
    return {
        "median": float(np.median(took)),
        "p99": float(np.percentile(took, 99)),
        "quiet_p99": float(np.percentile(took.min(axis=0), 99)),
        "first_median": float(np.median(took[0])),
        "first_p99": float(np.percentile(took[0], 99)),
    }


def run(name: str, servers: int, rounds: int, seed: int, *, full: bool) -> dict[str, object]:
    """All questions to one admission."""
    random = Random(seed)
    admission: AdmissionPolicy = make_policy("paragon", admission=name).admission
    queues = admission.queues
    accounts = {queue: account(random) for queue in queues}
    waiting = dict.fromkeys(queues, WAITING)
    made, before = cluster(servers, random, full=full), lines(queues, random)
    view = AdmissionView(made, waiting, NOW, accounts=accounts, positions=before)
    begin = time.thread_time()
    note = admission.observe(view)
    refit = 1e3 * (time.thread_time() - begin)
    view = replace(view, note=note or "")
    asked = [asks(random) for _ in range(rounds)]
    queue = queues[len(queues) // 2]
    return {
        "admission": name,
        "servers": servers,
        "full": full,
        "enqueue_us": timed(lambda request: admission.enqueue(request, view), asked),
        "review_us": timed(lambda request: admission.review(request, queue, view), asked),
        "servers_us": timed(lambda request: admission.servers(request, queue, view), asked),
        "floor_us": timed(lambda request: request, asked),
        "refit_ms": refit,
    }


def whole(name: str) -> dict[str, object]:
    """A whole run, in this process: its peak of memory is that of all that it has done."""
    spec = RunSpec("paragon-ec2-oversubscribed", "paragon", name, seed=1)
    began = time.process_time()
    outcome = prepare(spec).run()
    return {
        "admission": name,
        "workloads": len(outcome.fates),
        "cpu_seconds": time.process_time() - began,
        "peak_memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "kept_fraction": outcome.summary["qos_kept_fraction"],
    }


def main() -> None:
    made = parser("Cost of an admission's decisions, with ten queues and 10,000 waiting.")
    made.add_argument("--whole", action="store_true", help="two whole runs, too (minutes)")
    options = made.parse_args()
    names = ("fifo", "arq", "arq[higher=empty,ranges=quantile]")
    results = [
        run(name, servers, options.rounds, options.seed, full=full)
        for servers in SERVERS
        for full in (False, True)
        for name in names
    ]
    if options.whole:
        with get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
            results += pool.map(whole, ("fifo", "arq"), chunksize=1)
    report("admission", options, results)


if __name__ == "__main__":
    main()
