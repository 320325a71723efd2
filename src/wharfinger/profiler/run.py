"""Profile one workload on this machine without a manager.

Who calls: whoever wants to know of one program. With a manager it is the core that asks.
"""

from dataclasses import replace
from pathlib import Path

from wharfinger.engines.local.engine import LocalEngine
from wharfinger.model.profile import Measurements, ProfilingPlan
from wharfinger.model.workload import Workload
from wharfinger.profiler.engine import EngineProfiler

KEY = "profile"


def profile_workload(
    directory: Path, workload: Workload, plan: ProfilingPlan, *, servers: str | None = None
) -> Measurements:
    """Run a copy of it by the plan, and let nothing of it be left.

    Args:
        directory: For an engine's records meanwhile; made when it is not there. No other engine
            may use it at the same time.
        workload: What to copy.
        plan: What to measure. An empty ``server`` stands for the first one.
        servers: How the machine is divided, as ``wharfinger up --servers`` takes it.

    Raises:
        InvalidInput: The machine can't be divided so.
        EngineFault: Nothing could be measured; the message says why.
    """
    with EngineProfiler(LocalEngine(directory, servers=servers)) as profiler:
        wanted = replace(plan, server=plan.server or profiler.server.name)
        return profiler.measure(KEY, workload, wanted)
