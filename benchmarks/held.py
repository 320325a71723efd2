"""What load a service holds at its latency bound: told by one run under less, and tried.

    python -m benchmarks.held [--output FILE]

The HTTP service of the catalog runs in profiling copies, with several amounts of CPU, under loads
from a third of what it could do up to all of it, evenly spaced. *Held* is the load at which its
latency crosses the bound, between two that were tried; *told* is what ``slo_throughput`` makes of
each run alone. Takes some four minutes, and a machine that does nothing else."""

import socket
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import log
from pathlib import Path

from benchmarks._harness import arguments, report
from wharfinger.classification.slo_throughput import slo_throughput
from wharfinger.engines.local.profiler import profile_workload
from wharfinger.model.performance import Quantity
from wharfinger.model.profile import ProfilingPlan
from wharfinger.model.workload import (
    LatencyBound,
    Measure,
    Run,
    Target,
    Workload,
    WorkloadType,
)

BOUND = LatencyBound(95, 0.1)
CPUS = (250, 500, 1000)
SHARES = (0.3, 0.5, 0.7, 0.8, 0.9, 1.0)
SECONDS = 5.0
REGEX = r"throughput=(?P<throughput>[0-9.]+) latency_ms=(?P<latency_ms>[0-9.]+)"


@dataclass(frozen=True, slots=True)
class Seen:
    """One run.

    Attributes:
        asked_per_second: The load; ``None`` = as fast as answers come.
        could_per_second: What it could do, by how busy it was.
        latency_seconds: At the bound's percentile.
        used_cpus: CPU seconds per second.
        told_per_second: The load that it should hold, by this run alone.
    """

    asked_per_second: float | None
    could_per_second: float
    latency_seconds: float
    used_cpus: float
    told_per_second: float


def run(cpu_millicpus: int, rate_per_second: float | None) -> Seen:
    """One copy under one load."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    module = (sys.executable, "-m")
    load = [*module, "wharfinger.catalog.programs.load", "--port", port, "--keys", "50"]
    load += ["--connections", "16", "--percentile", f"{BOUND.percentile:g}", "--every", "0.5"]
    if rate_per_second is not None:
        load += ["--rate", f"{rate_per_second:g}", "--window", "2"]
    service = Workload(
        "service",
        WorkloadType.LATENCY_CRITICAL,
        Run((*module, "wharfinger.catalog.programs.http_service", "--port", port)),
        target=Target(throughput_per_second=1.0, latency=BOUND),
        measure=Measure(progress_regex=REGEX, load_command=tuple(load), load_regex=REGEX),
    )
    plan = ProfilingPlan("", (cpu_millicpus,), 256 << 20, (), SECONDS)
    with tempfile.TemporaryDirectory() as directory:
        found = profile_workload(Path(directory), service, plan).performance
    could, latency, used = (
        found[quantity][cpu_millicpus]
        for quantity in (Quantity.THROUGHPUT, Quantity.LATENCY, Quantity.CPU)
    )
    told = slo_throughput(
        could, latency, cpu_millicpus, used.value, BOUND.below_seconds, BOUND.percentile
    )
    return Seen(rate_per_second, could.value, latency.value, used.value, told.value)


def held(tried: Sequence[Seen]) -> float | None:
    """The load at which latency crosses the bound, by logarithms; ``None`` = it never does."""
    below: Seen | None = None
    for seen in tried:
        asked = seen.asked_per_second or 0.0
        if seen.latency_seconds > BOUND.below_seconds:
            if below is None or below.asked_per_second is None:
                return None
            span = log(seen.latency_seconds / below.latency_seconds)
            share = log(BOUND.below_seconds / below.latency_seconds) / span
            return below.asked_per_second + share * (asked - below.asked_per_second)
        below = seen
    return None


def main() -> None:
    """Run, and write JSON."""
    options = arguments("What load a service holds at its latency bound.")
    results = []
    for cpu_millicpus in CPUS:
        most = run(cpu_millicpus, None)
        tried = [run(cpu_millicpus, share * most.could_per_second) for share in SHARES]
        results.append(
            {
                "cpu_millicpus": cpu_millicpus,
                "held_per_second": held(tried),
                "as_fast_as_it_can": asdict(most),
                "runs": [asdict(seen) for seen in tried],
            }
        )
        print(f"{cpu_millicpus}m: {held(tried)}", file=sys.stderr)
    report("held", options, results)


if __name__ == "__main__":
    main()
