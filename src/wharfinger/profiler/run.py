"""Profile one workload on this machine without a manager.

Who calls: whoever measures programs one by one. With a manager it is the core that asks.
"""

import time
from dataclasses import replace
from pathlib import Path

from wharfinger.engines.local import LocalEngine
from wharfinger.errors import EngineFault, InvalidInput
from wharfinger.manager import actions as act
from wharfinger.manager import events as ev
from wharfinger.model.profile import Measurements, ProfilingPlan
from wharfinger.model.workload import Workload

KEY = "profile"
LIMIT_SECONDS = 300.0
"""Beside twice the plan's own time: the profiler itself gives up long before."""


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
        InvalidInput: The machine can't be divided so, or has no such server.
        EngineFault: Nothing could be measured; the message says why.
    """
    engine = LocalEngine(directory, servers=servers)
    try:
        engine.open()
        names = [r.server.name for r in engine.poll() if isinstance(r, ev.ServerReported)]
        wanted = plan.server or names[0]
        if wanted not in names:
            raise InvalidInput(f"server: {wanted!r}; this machine has {', '.join(names)}")
        engine.perform(act.ProfileWorkload(KEY, workload, replace(plan, server=wanted)))
        return _answer(engine, 2 * plan.seconds + LIMIT_SECONDS)
    finally:
        engine.close()


def _answer(engine: LocalEngine, limit_seconds: float) -> Measurements:
    deadline = time.monotonic() + limit_seconds
    while (left := deadline - time.monotonic()) > 0:
        for report in engine.poll(left):
            if isinstance(report, ev.ProfilingFinished) and report.key == KEY:
                return report.measurements
            if isinstance(report, ev.ProfilingFailed) and report.key == KEY:
                raise EngineFault(report.reason)
    raise EngineFault(f"no answer within {limit_seconds:g} s", retryable=True)
