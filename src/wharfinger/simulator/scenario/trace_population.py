"""Makes a population of a trace: the servers, and the application and draft of each row.

A trace states requests and durations, so its ground truth has no interference, and a job with what
it requested takes as long as it took. Called by ``build``.
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache

from wharfinger.errors import InvalidInput
from wharfinger.model.units import format_bytes, format_cpu
from wharfinger.model.workload import Scale, WorkloadType
from wharfinger.simulator.kernel.streams import Streams
from wharfinger.simulator.scenario.population import Draft, apportion
from wharfinger.simulator.scenario.scenario_types import PopulationClass, ServerGroup
from wharfinger.simulator.scenario.swf import Larger, SwfTrace, fitted
from wharfinger.simulator.scenario.traces import CsvTrace, Trace, TraceJob, TraceServer, tell

_MAX_NAME = 50


def groups_of(servers: Sequence[TraceServer], sample: float) -> tuple[ServerGroup, ...]:
    """A share of the servers, grouped by name and size, in the order of the trace."""
    counts = Counter(servers)
    labels = Counter(server.platform for server in counts)
    total = sum(counts.values())
    kept = apportion([float(n) for n in counts.values()], max(1, round(total * sample)))
    return tuple(
        ServerGroup(
            _platform(server, alone=labels[server.platform] == 1),
            count,
            server.cpu_millicpus,
            server.memory_bytes,
        )
        for server, count in zip(counts, kept, strict=True)
        if count
    )


def _platform(server: TraceServer, *, alone: bool) -> str:
    if alone and server.platform:
        return server.platform
    size = f"{format_cpu(server.cpu_millicpus)}cpu-{format_bytes(server.memory_bytes)}"
    return f"{server.platform}-{size}" if server.platform else size


def chosen_jobs(
    trace: Trace,
    source: CsvTrace | SwfTrace,
    groups: Sequence[ServerGroup],
    of_all: Callable[[int], int],
    streams: Streams,
) -> tuple[tuple[TraceJob, ...], dict[str, int]]:
    """The rows that run, and how many were left out by reason; ``InvalidInput`` if too few."""
    larger = source.larger if isinstance(source, SwfTrace) else Larger.SKIP
    trace = fitted(trace, larger, max(group.cpu_millicpus for group in groups))
    room = max(group.memory_bytes for group in groups)
    jobs = tuple(job for job in trace.jobs if job.memory_bytes <= room)
    skipped = dict(trace.skipped)
    if len(jobs) < len(trace.jobs):
        skipped["that need more memory than every server has"] = len(trace.jobs) - len(jobs)
    if not jobs:
        raise InvalidInput(f"no job is left of the trace: {tell(skipped)}; add larger servers")
    wanted = of_all(max(1, round(len(jobs) * source.window.sample)))
    if wanted > len(jobs):
        raise InvalidInput(f"{wanted} workloads of a trace that has {len(jobs)}; ask for fewer")
    if wanted < len(jobs):
        picked = streams.of("trace/sample").choice(len(jobs), wanted, replace=False)
        jobs = tuple(jobs[index] for index in sorted(picked.tolist()))
    return jobs, skipped


def application_of(job: TraceJob) -> str:
    """Rows of one program that request the same CPU are one application."""
    return f"{job.application or job.type.value}-{format_cpu(job.cpu_millicpus)}"


def drafts_of(jobs: Sequence[TraceJob], streams: Streams) -> list[Draft]:
    """The rows as drafts, with their names in the trace."""
    goals = streams.of("trace/targets").random((len(jobs), 2)).tolist()
    names: Counter[str] = Counter()
    return [
        Draft(
            _class(job.type, job.servers),
            application_of(job),
            -(-job.cpu_millicpus // job.servers),
            job.memory_bytes,
            job.duration_seconds,
            job.type is WorkloadType.BEST_EFFORT,
            goal=tuple(goal),
            name=_name(job.name, names),
            expected_seconds=job.requested_seconds,
        )
        for job, goal in zip(jobs, goals, strict=True)
    ]


@cache
def _class(kind: WorkloadType, servers: int) -> PopulationClass:
    return PopulationClass(kind.value, type=kind, scale=Scale(servers))


def _name(text: str, names: Counter[str]) -> str:
    plain = slug(text)
    names[plain] += 1
    return plain if names[plain] == 1 else f"{plain}-{names[plain]}"


def slug(text: str) -> str:
    """A text as a name may be written.

    >>> slug("v100_unconsolidated"), slug("--")
    ('v100-unconsolidated', 'x')
    """
    return re.sub("[^a-z0-9]+", "-", text.lower()).strip("-")[:_MAX_NAME].strip("-") or "x"
