"""A real service whose load rises again and again: is it met sooner once that is known?

The load has a period of a minute, 20 s of it high. Under `quasar` with its forecast and without it,
on one CPU: the share of the first seconds after each rise in which the target was kept, and the CPU
that the service held as the load rose.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from benchmarks._live_mix import REPORT, free_port, module
from tests.support.live import LiveManager, manifest
from wharfinger.cli.client import Client

PERIOD_SECONDS, HIGH_SECONDS = 60, 20
FIRST_RISE_SECONDS = 75
"""After the submission; the service is profiled and placed before."""
WATCHED_SECONDS = 15
HORIZON_SECONDS = 8
SAMPLE_SECONDS = 0.5
FILLER = ("wharfinger.catalog.programs.numeric",)
POLICIES = {
    "with forecast": f"quasar[forecast_seconds={HORIZON_SECONDS},spare_seconds=10]",
    "without": "quasar[forecast=false,spare_seconds=10]",
}


def workloads(low: float, high: float, epoch: float, periods: int) -> list[dict[str, Any]]:
    """The service under its load, and best-effort work that takes what it leaves."""
    port, steps = str(free_port()), ""
    for period in range(periods):
        at = FIRST_RISE_SECONDS + period * PERIOD_SECONDS
        steps += f" --step {at}:{high:.0f} --step {at + HIGH_SECONDS}:{low:.0f}"
    load = f"--rate {low:.0f}{steps} --epoch {epoch:.3f} --timeout 2 --window 2 --port {port}"
    driver = module("wharfinger.catalog.programs.load", *load.split())
    pages = manifest(
        "pages",
        *module("wharfinger.catalog.programs.http_service", "--port", port),
        type="latency-critical",
        target={
            "throughput": f"{0.6 * low:.6g}/s",
            "latency": {"percentile": 95, "below": "150ms"},
        },
        measure={"load": {"command": list(driver), "regex": REPORT}},
        profile={"seconds": 3},
    )
    return [pages, manifest("filler", *module(*FILLER), type="best-effort", resources={})]


def season(name: str, live: LiveManager, client: Client, alone: float, periods: int) -> Any:
    """What was kept after each rise under one policy."""
    epoch = time.time()
    live.submit(*workloads(0.1 * alone, 0.5 * alone, epoch, periods))
    rises = [epoch + FIRST_RISE_SECONDS + n * PERIOD_SECONDS for n in range(periods)]
    seen: list[tuple[float, bool | None, float]] = []
    while time.time() < rises[-1] + WATCHED_SECONDS:
        found = {each["name"]: each for each in client.get("workloads")}["pages"]
        seen.append((time.time(), found["met"], found["cpus"]))
        time.sleep(SAMPLE_SECONDS)
    return {
        "name": name,
        "kept_after_rise": [_share(seen, rise) for rise in rises],
        "cpus_at_rise": [
            next((after for (at, _, _), (_, _, after) in pairwise(seen) if at >= rise), None)
            for rise in rises
        ],
        "forecast": "are forecast in" in live.run("explain", "pages", "-o", "wide"),
    }


def _share(seen: Sequence[tuple[float, bool | None, float]], rise: float) -> float | None:
    met = [bool(met) for at, met, _ in seen if rise <= at < rise + WATCHED_SECONDS]
    return round(sum(met) / len(met), 2) if met else None


def shown(found: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The table for people."""
    yield f"kept in the first {WATCHED_SECONDS} s after each rise, and CPUs held as it came"
    for one in found:
        pairs = zip(one["kept_after_rise"], one["cpus_at_rise"], strict=True)
        told = "  ".join(f"{kept or 0:4.0%} ({cpus or 0:.2f})" for kept, cpus in pairs)
        yield f"  {one['name']:14} {told}"
