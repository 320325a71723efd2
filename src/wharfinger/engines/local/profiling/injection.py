"""A source of interference as a copy's co-runner: started, withdrawn at once, and removed.

Called by ``session``. The source stands for neighbors, so it runs on the copy's CPUs and gets what
the copy leaves of them. I/O goes to a nameless file on the storage that the copy's writes go to.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from wharfinger.engines.local.profiling.cleanup import clear_run
from wharfinger.engines.local.profiling.job import Lifeline, ProfilingJob
from wharfinger.errors import EngineFault, InvalidInput, OutOfSpace, Unavailable
from wharfinger.host.processes import KEY_VARIABLE
from wharfinger.ibench.driver import Report, RunningSource, begin_maximum, start_supervised
from wharfinger.ibench.sources import SourceSetting, signal_here, source_named
from wharfinger.model.allocation import Allocation, Placement
from wharfinger.model.interference import SharedResource
from wharfinger.model.platform import MILLICPUS_PER_CPU
from wharfinger.profiling.steps import SourceSilent

REPORT_SECONDS = 0.1
SOURCE_MEMORY_BYTES = 256 << 20
LOOK_SECONDS = 0.02

KEPT_BACK = 0.05
"""Share of a server's CPU for the kernel, the manager and the profiler: without it they slow the
copy, which would be taken for interference."""
MIN_LEFT_MILLICPUS = 100
EVERYWHERE = frozenset({SharedResource.STORAGE_BANDWIDTH})
"""Shared by all servers of this machine, and seen at the source."""


@contextmanager
def begin_source(
    job: ProfilingJob, resource: SharedResource, upper_base: Path, lifeline: Lifeline
) -> Iterator[RunningSource]:
    """A source at intensity 0; afterwards nothing of it is left.

    Raises:
        SourceSilent: There is none, or it has no signal here.
        NeighborFell: While a device's maximum was measured.
    """
    name = f"{job.key}.{resource.value}"
    all_millicpus = MILLICPUS_PER_CPU * len(job.server.cpus)
    left_millicpus = round(all_millicpus * (1 - KEPT_BACK)) - job.plan.cpu_millicpus[0]
    if left_millicpus < MIN_LEFT_MILLICPUS:
        raise SourceSilent("the copy has all of the server's CPUs, and leaves none to neighbors")
    allocation = Allocation(left_millicpus, SOURCE_MEMORY_BYTES)
    try:
        setting = _setting(job, resource, upper_base, lifeline)
        placement = Placement(job.plan.server, allocation)
        group = job.machine.create_run(job.directory, name, placement)
        source = start_supervised(
            setting,
            job.directory / name,
            env={KEY_VARIABLE: name},
            cgroup_procs=group.procs_files,
            cgroup_kill=group.kill_file,
            freezer=group.freezer,
        )
    except (InvalidInput, EngineFault, OutOfSpace, Unavailable) as error:
        clear_run(job.directory / name)
        raise SourceSilent(str(error)) from error
    try:
        with lifeline.injecting(everywhere=resource in EVERYWHERE):
            yield source
    finally:
        with suppress(Unavailable):
            source.withdraw()
        source.stop()
        clear_run(job.directory / name)


def _setting(
    job: ProfilingJob, resource: SharedResource, upper_base: Path, lifeline: Lifeline
) -> SourceSetting:
    setting = SourceSetting(
        source_named(resource.value),
        cpus=job.server.cpus,
        directory=upper_base,
        report_seconds=REPORT_SECONDS,
    )
    signal = signal_here(setting)
    if not signal.there:
        raise SourceSilent(signal.reason)
    if not setting.source.measures_maximum:
        return setting
    device = upper_base.stat().st_dev
    if maximum := job.maxima_per_second.get(device):
        return replace(setting, maximum_per_second=maximum)
    with lifeline.injecting(everywhere=True), begin_maximum(setting) as source:
        while not source.ready_within(LOOK_SECONDS):
            lifeline.wait(0.0)
    lifeline.tell({"maximum": [device, source.setting.maximum_per_second]})  # For later plans.
    return source.setting


def reports_at_most(source: RunningSource) -> tuple[float, list[float]]:
    """The highest intensity that the source was at, and what it achieved there."""
    reports: list[Report] = [r for r in source.read() if r.intensity > 0 and r.period_seconds > 0]
    highest = max((report.intensity for report in reports), default=0.0)
    whole = [r for r in reports if r.intensity == highest]
    return highest, [report.achieved for report in whole]
