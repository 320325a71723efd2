"""Profiles workloads by the local engine, one after another, with no manager above it."""

from pathlib import Path

from wharfinger.engines.local.engine import LocalEngine
from wharfinger.engines.supervised.profiler import EngineProfiler
from wharfinger.model.profile import Measurements, ProfilingPlan
from wharfinger.model.workload import Workload

KEY = "profile"


class LocalProfiler(EngineProfiler):
    """A local engine, open within the ``with`` block; arguments are as for ``LocalEngine``."""

    def __init__(self, directory: Path, servers: str | None = "1") -> None:
        super().__init__(LocalEngine(directory, servers=servers))


def profile_workload(
    directory: Path, workload: Workload, plan: ProfilingPlan, *, servers: str | None = None
) -> Measurements:
    """Run a copy of it by the plan, and leave nothing behind; see ``LocalProfiler.measure``.

    No other engine may use the directory at the same time.
    """
    with LocalProfiler(directory, servers) as profiler:
        return profiler.measure(KEY, workload, plan)
