"""Whole simulated runs, each in a process of its own, for ``benchmarks/simulation.py``.

The peer is the least that a simulation of the same population costs in SimPy: a process a workload
that waits for its arrival and then for its end, with no server, no core and no decision. The floor
is the compiled loop with as many events that do nothing.
"""

import json
import resource
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SIZES = ((1_000, 8_500), (10_000, 8_500), (100_000, 8_500), (10_000, 100_000))
POLICIES = ("least-loaded", "sparrow")


@dataclass(frozen=True, slots=True)
class Case:
    """One run."""

    policy: str
    servers: int
    workloads: int
    seed: int

    def measured(self) -> Mapping[str, Any]:
        """In a process of its own: memory is the run's, and nothing is warm."""
        told = [self.policy, str(self.servers), str(self.workloads), str(self.seed)]
        done = subprocess.run(
            [sys.executable, Path(__file__), *told], capture_output=True, text=True, check=True
        )
        found: Mapping[str, Any] = json.loads(done.stdout)
        return found


def run(case: Case) -> dict[str, Any]:
    """Simulate; the seconds are of the run alone, drawing the population is apart."""
    from wharfinger.simulator.run import RunSpec, prepare  # noqa: PLC0415 - in the child only

    began = time.perf_counter()
    spec = RunSpec(
        "synthetic", case.policy, seed=case.seed, servers=case.servers, workloads=case.workloads
    )
    simulation = prepare(spec)
    drawn = time.perf_counter()
    resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    outcome = simulation.run()
    seconds = time.perf_counter() - drawn
    events = outcome.summary["events"]
    arrivals = [job.arrives_at for job in simulation.setup.jobs]
    ends = [fate.ended_at or 0.0 for fate in outcome.fates]
    floor, peer = idle_loop(int(events or 0)), simpy_processes(arrivals, ends)
    return {
        "policy": case.policy,
        "servers": case.servers,
        "workloads": case.workloads,
        "seconds": seconds,
        "drawing_seconds": drawn - began,
        "microseconds_per_workload": seconds / case.workloads * 1e6,
        "events": events,
        "floor_seconds": floor,
        "peer_simpy_seconds": peer,
        "times_peer": None if peer is None else seconds / peer,
        "times_floor": seconds / floor,
        "peak_rss_bytes": outcome.summary["peak_rss_bytes"],
        "rss_before_the_run_bytes": resident,
        "decision_microseconds_p50": outcome.summary["decision_microseconds_p50"],
    }


def idle_loop(events: int) -> float:
    """So many events that do nothing."""
    from wharfinger.simulator.kernel.loop import EventLoop  # noqa: PLC0415 - as above

    loop = EventLoop()
    began = time.perf_counter()
    for at in range(events):
        loop.schedule(float(at), id)
    loop.run()
    return time.perf_counter() - began


def simpy_processes(arrivals: list[float], ends: list[float]) -> float | None:
    """A process a workload; ``None`` = SimPy is not installed."""
    try:
        import simpy  # noqa: PLC0415 - an extra
    except ImportError:
        return None

    environment = simpy.Environment()

    def life(arrives: float, ends: float):  # type: ignore[no-untyped-def]
        yield environment.timeout(arrives)
        yield environment.timeout(max(0.0, ends - arrives))

    began = time.perf_counter()
    for arrives, end in zip(arrivals, ends, strict=True):
        environment.process(life(arrives, end))
    environment.run()
    return time.perf_counter() - began


if __name__ == "__main__":
    policy, servers, workloads, seed = sys.argv[1:]
    print(json.dumps(run(Case(policy, int(servers), int(workloads), int(seed)))))
