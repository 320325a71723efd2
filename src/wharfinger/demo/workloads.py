"""The demo's workloads (``workloads.yaml``) and their targets.

Pure. A target is a share of what its program does alone on one CPU, so nothing is tuned to one
machine.
"""

import sys
from collections import ChainMap
from collections.abc import Mapping, MutableMapping
from importlib.resources import files
from string import Template

BASELINE = "least-loaded"
SERVICES = ("web", "cache")
SURGING = "web"
COMPLETE_BY = {"compress": 0.8, "sort": 0.85, "report": 0.9}
"""Batch jobs and their targets, as shares of the run's length."""
TARGETED = (*SERVICES, *COMPLETE_BY)
FILLERS = ("matrices", "scan", "rows")

SHARE = 0.1
"""Of all CPUs: what each target needs, by what its program does alone."""
SURGE = 2.1
"""The load of the surge, over the load before.

Without it the targets need half of the CPUs together, with it three fifths. The rest is for
confidence: a policy that sizes by predictions allocates more than is needed.
"""
TOLERANCE = 0.1
_ALLOWANCE = 0.4
"""Share of the run that batch targets leave for waiting and profiling."""
_MIN_LATENCY_SECONDS = 0.1
"""CPU limits count in periods of 100 ms: no bound is below one, nor below as many as a program that
alone has only a share of a CPU takes for one's time."""
_LATENCY_FACTOR = 20.0
"""A bound on latency, over the median alone: a percentile of few seconds is mostly noise."""


def manifests(values: MutableMapping[str, object]) -> str:
    """The manifest file, with a value for each of its names that varies."""
    template = Template((files(__package__) / "workloads.yaml").read_text())
    programs = "wharfinger.catalog.programs"
    same = {"python": sys.executable, "programs": programs, "tolerance": TOLERANCE}
    return template.substitute(ChainMap(same, values))


def offered_rate(needs_cpus: float, solo_rate_per_second: float) -> float:
    """Requests a second at which a service's target is set."""
    return _round(needs_cpus * solo_rate_per_second, 3)


def targets(
    speeds: Mapping[str, float],
    latency_seconds: float,
    needs: Mapping[str, float],
    run_seconds: float,
    alone_cpus: float = 1.0,
) -> dict[str, object]:
    """The manifests' values that state targets, as shares of what programs do alone.

    Args:
        speeds: By name: steps a second, or requests answered when they come as fast as they can.
        latency_seconds: Of the service that surges: the median at the rate of its target.
        needs: By name: CPUs that the target needs, by what its program does alone.
        run_seconds: Of one run.
        alone_cpus: What a program has alone.

    >>> needs = dict.fromkeys(TARGETED, SHARE * 2)
    >>> values = targets(dict.fromkeys(TARGETED, 20.0), 0.01, needs, 110.0)
    >>> values["web_rate"], values["web_latency_ms"]
    (4.0, 200)
    >>> values["compress_seconds"], values["compress_total"]
    (88.0, 176)
    """
    values: dict[str, object] = {"surge_seconds": run_seconds / 2}
    for name in SERVICES:
        rate = offered_rate(needs[name], speeds[name])
        values |= {f"{name}_rate": rate, f"{name}_surge_rate": round(rate * SURGE, 6)}
    bound = max(_MIN_LATENCY_SECONDS / alone_cpus, _LATENCY_FACTOR * latency_seconds)
    values[f"{SURGING}_latency_ms"] = round(1000 * _round(bound, 2))
    for name, share in COMPLETE_BY.items():
        completion = round(share * run_seconds, 1)
        working = completion - _ALLOWANCE * run_seconds
        steps = needs[name] * speeds[name] * working
        values |= {f"{name}_seconds": completion, f"{name}_total": max(1, round(steps))}
    return values


def _round(value: float, digits: int) -> float:
    return float(f"{value:.{digits}g}")
