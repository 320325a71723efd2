"""Measures a training set exhaustively, through the profiler's plans on an empty cluster.

What ``wharfinger.catalog.campaign`` does with real programs, measured with an error.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.errors import WharfingerError
from wharfinger.model.configuration import Configuration, Setting
from wharfinger.model.interference import SCORED, SharedResource
from wharfinger.model.platform import Server
from wharfinger.model.profile import FurtherRun, Measurements, ProfilingPlan
from wharfinger.model.workload import Profile, ProfileMode, Run, Workload, WorkloadType
from wharfinger.profiling.procedure import PROBE_INTENSITY
from wharfinger.simulator.cluster.cluster import SimulatedCluster
from wharfinger.simulator.kernel.loop import EventLoop
from wharfinger.simulator.kernel.streams import Streams
from wharfinger.simulator.scenario.jobs import APPLICATION, Job
from wharfinger.simulator.scenario.setup import Costs, Setup
from wharfinger.simulator.truth.ground_truth import TrueResident

SECONDS = 3600.0  # of a plan; offline, no workload waits
_TRAINING = "training/"
INJECTED_MILLICPUS = 2000  # about so much of the server a copy has while sources run beside it


class Campaign:
    """One setup's training set; all but heterogeneity is measured on the ``reference`` platform."""

    def __init__(
        self,
        setup: Setup,
        streams: Streams,
        reference: str,
        columns: Sequence[int],
        most_servers: int,
    ) -> None:
        self._setup, self._reference = setup, reference
        self._columns, self._most_servers = tuple(columns), most_servers
        self._jobs = {job.application: job for job in setup.jobs}
        self._platforms = {s.platform.name: s.platform for s in setup.servers}
        self._loop = EventLoop()
        self._reports: list[ev.Report] = []
        self._cluster = SimulatedCluster(
            self._loop,
            setup.truth,
            self._servers(),
            streams=streams,
            costs=Costs(start_seconds=0.0, start_spread=0.0),
            measuring=setup.measuring,
        )
        self._cluster.attach(self._reports.append)

    def measure(self, application: str, sources: Sequence[SharedResource]) -> Measurements | None:
        """All that there is to know of one; ``None`` = it did nothing, or does not fit."""
        job = self._job(application)
        return self._run(application, job, self._plan(job, sources))

    def scores(self, application: str, sources: Sequence[SharedResource]) -> Measurements | None:
        """The same of interference alone."""
        job = self._job(application)
        plan = self._plan(job, sources)
        only = replace(plan, cpu_millicpus=plan.cpu_millicpus[:1], further=())
        return self._run(application, job, only)

    def _run(self, application: str, job: Job, plan: ProfilingPlan) -> Measurements | None:
        self._cluster.jobs[job.name] = job
        action = act.ProfileWorkload(application, job.workload, plan)
        self._cluster.perform(action)
        while self._loop.step():
            for report in self._reports:
                if isinstance(report, ev.ProfilingFinished | ev.ProfilingFailed):
                    self._reports.clear()
                    return getattr(report, "measurements", None)
        raise WharfingerError(f"profiling of {application} did not end")

    def signals(self) -> tuple[SharedResource, ...]:
        """Sources that can be injected on the reference."""
        truth = self._setup.truth
        beside = TrueResident(next(iter(self._setup.training)), 1000.0, 1)
        return tuple(
            source
            for source in SCORED
            if truth.source(self._reference, source, PROBE_INTENSITY, beside) is not None
        )

    def _servers(self) -> Iterator[Server]:
        for name, platform in self._platforms.items():
            for number in range(self._most_servers if name == self._reference else 1):
                cpu, memory = platform.cpu_millicpus, platform.memory_bytes
                yield Server(f"{name}/{number}", platform, cpu, memory)

    def _job(self, application: str) -> Job:
        """A copy under a name of its own: measurements here err otherwise than later ones."""
        job, copied = self._jobs.get(application), Profile(ProfileMode.COPY)
        if job is not None:
            type_ = WorkloadType.SINGLE_NODE if job.best_effort else job.workload.type
            name = _TRAINING + application
            workload = replace(job.workload, name=name, type=type_, profile=copied)
            return replace(job, workload=workload, phases=())
        cpu, memory = self._setup.needs.get(application, (self._columns[-1], 1))
        workload = Workload(
            _TRAINING + application,
            WorkloadType.BATCH,
            Run((APPLICATION, application)),
            profile=copied,
        )
        return Job(workload, application, work=1.0, cpu_millicpus=cpu, memory_bytes=memory)

    def _plan(self, job: Job, sources: Sequence[SharedResource]) -> ProfilingPlan:
        """Sources are injected at the first allocation."""
        first = min(
            self._columns, key=lambda cpu: abs(cpu - min(INJECTED_MILLICPUS, job.cpu_millicpus))
        )
        others = [cpu for cpu in self._columns if cpu != first]
        return ProfilingPlan(
            f"{self._reference}/0",
            (first, *others),
            job.memory_bytes,
            tuple(sources),
            SECONDS,
            further=tuple(self._further(job)),
        )

    def _further(self, job: Job) -> Iterator[FurtherRun]:
        most = self._columns[-1]
        for name, platform in self._platforms.items():
            if name != self._reference and job.memory_bytes <= platform.memory_bytes:
                for cpu in self._columns:
                    if cpu <= platform.cpu_millicpus:
                        yield FurtherRun(Setting(name, Configuration(cpu)), (f"{name}/0",))
        for count in range(2, self._most_servers + 1):
            names = tuple(f"{self._reference}/{number}" for number in range(count))
            yield FurtherRun(Setting(self._reference, Configuration(most), count), names)
