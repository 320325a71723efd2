"""Small worlds whose truth is the physics: platforms of the papers, programs made by hand."""

from collections.abc import Sequence

import numpy as np

from wharfinger.model.platform import Platform, Server
from wharfinger.model.workload import (
    LatencyBound,
    Reservation,
    Run,
    Scale,
    Target,
    Workload,
    WorkloadType,
)
from wharfinger.simulator.scenario.jobs import APPLICATION, Job, Load
from wharfinger.simulator.scenario.setup import Setup
from wharfinger.simulator.truth.physics.application import (
    Application,
    Mix,
    Serving,
    Streaming,
    WorkingSet,
)
from wharfinger.simulator.truth.physics.clusters import EC2_SERVERS, HARDWARE
from wharfinger.simulator.truth.physics.hardware import GIB, MIB
from wharfinger.simulator.truth.physics.truth import Physics

APPLICATIONS = (
    Application("plain", 0.5, footprint_bytes=GIB // 8),
    Application("integer", 0.7, Mix(0.7), footprint_bytes=GIB // 8, whim=0.1),
    Application("floating", 0.6, Mix(0.2, 0.4), (WorkingSet(0.004, 2 * MIB),), whim=0.1),
    Application("cached", 0.6, sets=(WorkingSet(0.02, 3 * MIB, 3.0),), parallelism=1.5),
    Application("chasing", 0.8, sets=(WorkingSet(0.015, 24 * MIB, floor=0.2),), parallelism=1.3),
    Application("streaming", 0.5, sets=(WorkingSet(0.03, 64 * MIB, floor=0.8),), parallelism=7.0),
    Application("two", 0.6, threads=2, contention=0.03, sets=(WorkingSet(0.01, 4 * MIB),)),
    Application("four", 0.6, threads=4, contention=0.02, sets=(WorkingSet(0.006, 2 * MIB),)),
    Application("eight", 0.5, Mix(0.2, 0.2, 0.3), threads=8, contention=0.01, whim=0.1),
    Application("wide", 0.6, threads=4, contention=0.02, parallelism=6.0,
                sets=(WorkingSet(0.02, 48 * MIB, floor=0.6),)),
    Application("disk", 0.6, disk=Streaming(0.03, 0.12, 2.0), footprint_bytes=GIB // 2),
    Application("network", 0.6, network=Streaming(0.02, 0.08, 2.0), footprint_bytes=GIB // 2),
    Application("service", 0.7, threads=8, sets=(WorkingSet(0.008, 6 * MIB),),
                serving=Serving(2e6, 1.0)),
)  # fmt: skip
BATCH = tuple(each.name for each in APPLICATIONS if each.serving is None)
THREADS = {each.name: each.threads for each in APPLICATIONS}
FOOTPRINT = {each.name: each.footprint_bytes for each in APPLICATIONS}


def platform(name: str) -> Platform:
    """Of the papers."""
    known = HARDWARE[name]
    return Platform(name, "x86_64", "", known.cpu_millicpus, known.memory_bytes)


def physical_servers(counts: Sequence[tuple[str, int]]) -> tuple[Server, ...]:
    """So many of each platform."""
    found = []
    for name, count in counts:
        of = platform(name)
        found += [
            Server(f"{name}-{at}", of, of.cpu_millicpus, of.memory_bytes) for at in range(count)
        ]
    return tuple(found)


def physics(counts: Sequence[tuple[str, int]]) -> Physics:
    """Of these platforms."""
    return Physics([HARDWARE[name] for name, _ in counts], APPLICATIONS)


def batch(
    truth: Physics, name: str, application: str, arrives_at: float, seconds: float,
    *, of_best: float = 1.0, servers: int = 1, best_effort: bool = False,
) -> Job:  # fmt: skip
    """So many seconds alone on its best platform, wanted in that time over ``of_best``."""
    best = max(truth.most(platform, application) for platform in truth.hardware)
    cpu = 1000 * THREADS[application]
    kind = WorkloadType.SINGLE_NODE if servers == 1 else WorkloadType.BATCH
    if best_effort:
        kind = WorkloadType.BEST_EFFORT
    workload = Workload(
        name,
        kind,
        Run((APPLICATION, application)),
        target=None if best_effort else Target(completion_seconds=seconds / of_best),
        scale=Scale(max_servers=servers),
        reservation=Reservation(cpu, FOOTPRINT[application]),
    )
    return Job(workload, application, arrives_at, seconds * best, cpu_millicpus=cpu,
               memory_bytes=FOOTPRINT[application])  # fmt: skip


def service(name: str, arrives_at: float, seconds: float, load: Load, *, servers: int = 4) -> Job:
    """Wanted for so long; 99% of its answers within 20 ms."""
    workload = Workload(
        name,
        WorkloadType.LATENCY_CRITICAL,
        Run((APPLICATION, "service")),
        target=Target(latency=LatencyBound(99, 0.02)),
        scale=Scale(max_servers=servers),
        reservation=Reservation(4000, FOOTPRINT["service"]),
    )
    return Job(workload, "service", arrives_at, lifetime_seconds=seconds, cpu_millicpus=8000,
               memory_bytes=FOOTPRINT["service"], load=load)  # fmt: skip


def setup(
    counts: Sequence[tuple[str, int]], jobs: Sequence[Job], truth: Physics | None = None
) -> Setup:
    """A world of them."""
    ordered = tuple(sorted(jobs, key=lambda job: job.arrives_at))
    return Setup("physical", physical_servers(counts), ordered, truth or physics(counts))


def drawn(
    counts: Sequence[tuple[str, int]],
    jobs: int,
    every_seconds: float,
    mean_seconds: float,
    seed: int,
    of_best: float = 1.0,
) -> Setup:
    """Batch jobs of all applications, in Poisson arrivals, of log-normal durations."""
    random = np.random.default_rng(seed)
    truth = physics(counts)
    at = np.cumsum(random.exponential(every_seconds, jobs))
    spans = mean_seconds * np.exp(0.8 * random.normal(size=jobs) - 0.32)
    spans = np.clip(spans, 120, 4 * 3600)
    names = random.choice(BATCH, jobs)
    made = [
        batch(truth, f"j{n}", str(name), float(arrives), float(span), of_best=of_best)
        for n, (name, arrives, span) in enumerate(zip(names, at, spans, strict=True))
    ]
    return setup(counts, made, truth)


def ec2(servers: int) -> list[tuple[str, int]]:
    """Table VI's proportions."""
    total = sum(count for _, count in EC2_SERVERS)
    return [(name, max(1, round(count * servers / total))) for name, count in EC2_SERVERS]
