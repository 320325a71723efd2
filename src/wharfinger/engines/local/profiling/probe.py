"""One probe of a workload that runs, in the worker's process: sources rise beside it.

The workload is not the worker's: the manager's meter reads it, each second, and what it reads comes
by the lifeline. The sources run on the CPUs of its server and get what it leaves of them; they end
with the worker, and the worker with its manager.
"""

from contextlib import ExitStack

from wharfinger.core import events as ev
from wharfinger.engines.local.profiling import cleanup
from wharfinger.engines.local.profiling.job import Lifeline, ProfilingJob
from wharfinger.engines.local.profiling.session import begin_source
from wharfinger.errors import InvalidInput, Unavailable, WharfingerError
from wharfinger.ibench.driver import RunningSource
from wharfinger.model.interference import SharedResource
from wharfinger.model.profile import Entry, Measurements
from wharfinger.monitor.messages import Message
from wharfinger.profiling.rising import Rising
from wharfinger.profiling.scores import caused_on_cpu
from wharfinger.profiling.steps import NeighborFell, SourceSilent

UNSETTLED = 1
"""Readings after each change that cover time before it."""


def answer(
    job: ProfilingJob, number: int, key: str, lifeline: Lifeline, patience_seconds: float
) -> ev.WorkloadProbed:
    """Raise the plan's sources; raises ``ManagerGone``, and then no source is left, either.

    A workload that says nothing for ``patience_seconds`` can't be probed.
    """
    upper_base = job.directory / "upper"
    try:
        cleanup.begin(job.directory, upper_base)
        upper_base.mkdir(mode=0o700, exist_ok=True)
        session = ProbeSession(job, lifeline, patience_seconds)
        try:
            session.run()
        finally:
            session.close()
    except (WharfingerError, OSError) as error:
        return ev.WorkloadProbed(key, number, Measurements(), str(error))
    return ev.WorkloadProbed(key, number, session.measurements())


class ProbeSession:
    """The rise of the sources, one by one."""

    def __init__(self, job: ProfilingJob, lifeline: Lifeline, patience_seconds: float) -> None:
        self._job, self._lifeline = job, lifeline
        self._patience_seconds = patience_seconds
        self._rising = Rising(job.plan.sources, job.plan.tolerance)
        self._source: RunningSource | None = None
        self._ends = ExitStack()
        self._used_cpus: list[float] = []

    def run(self) -> None:
        """Until all sources have risen, or can't."""
        at: tuple[SharedResource, float] | None = None
        while (wanted := self._rising.wanted) is not None:
            try:
                if wanted != at:
                    self._set(*wanted, anew=at is None or at[0] is not wanted[0])
                    at = wanted
                self._take_one(wanted[1])
            except (SourceSilent, NeighborFell) as why:
                self._ends.close()
                self._source, at = None, None
                self._rising.silence(str(why))
        self._ends.close()

    def close(self) -> None:
        """No source is left."""
        self._ends.close()

    def measurements(self) -> Measurements:
        """The scores; what it causes on the CPU by what it used of it."""
        caused: dict[SharedResource, Entry] = {}
        if self._used_cpus and SharedResource.INTEGER in self._job.plan.sources:
            cpus = len(self._job.server.cpus)
            caused[SharedResource.INTEGER] = caused_on_cpu(self._used_cpus, cpus)
        return self._rising.measurements(caused, self._job.server.server.platform.name)

    def _set(self, resource: SharedResource, intensity: float, *, anew: bool) -> None:
        if anew:
            self._ends.close()
            upper_base = self._job.directory / "upper"
            source = begin_source(self._job, resource, upper_base, self._lifeline)
            self._source = self._ends.enter_context(source)
        assert self._source is not None
        try:
            self._source.set_intensity(intensity)
        except (InvalidInput, Unavailable) as error:
            raise SourceSilent(str(error)) from error
        self._lifeline.forget()
        for _ in range(UNSETTLED):
            self._hear()

    def _hear(self) -> Message:
        heard = self._lifeline.hear(self._patience_seconds)
        if heard is None:
            patience = f"{self._patience_seconds:g} s"
            raise SourceSilent(f"it told nothing of its performance in {patience}")
        return heard

    def _take_one(self, intensity: float) -> None:
        heard = self._hear()
        if intensity == 0 and heard.get("used_cpus") is not None:
            self._used_cpus.append(float(heard["used_cpus"]))
        self._rising.take(float(heard["performance"]))
