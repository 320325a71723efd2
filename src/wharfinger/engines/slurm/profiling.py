"""Profiling on nodes: each run of a plan is a job on its server, and the plan has one answer.

The plan's own runs are one job; those elsewhere (another platform) are a job each, side by side.
Their measurements are merged when all have answered. The answer is reported when the jobs are over
and nothing is left of them, however the plan ended.
"""

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.engines.slow import CallOutcome, SlowCalls
from wharfinger.engines.slurm.client.base import SlurmClient, SlurmJob
from wharfinger.engines.slurm.ends import is_over
from wharfinger.engines.slurm.profiler_jobs import ProfilerJobs, ProfilerReading
from wharfinger.engines.slurm.script import whole_cpus
from wharfinger.engines.slurm.servers import Held
from wharfinger.engines.slurm.settings import SlurmSettings
from wharfinger.engines.supervised.copying import CopyAnswer, CopyOrder, why_not_profiled
from wharfinger.host.reports import STOPPED
from wharfinger.model.profile import Measurements, ProfilingPlan

log = logging.getLogger(__name__)

MAX_ANSWERS = 256
"""Kept for a core that asks again."""
_READ_SECONDS = 0.25
_END_SECONDS = 0.3
_SWEEP_SECONDS = 2.0
_SWEEP = " sweep"
_TOGETHER = "copies on several nodes have no network between them"


@dataclass(slots=True)
class _Part:
    """One job of a plan; ``platform`` is that of runs elsewhere, and empty of the plan's own.

    ``gone_at`` is when it was first seen not to wait or run any more.
    """

    plan: ProfilingPlan
    platform: str = ""
    job: SlurmJob | None = None
    gone_at: float | None = None
    answer: CopyAnswer | None = None
    said: str = ""


@dataclass(slots=True)
class _Plan:
    """One plan under way; with an ``answer`` its jobs are being ended."""

    key: str
    parts: dict[str, _Part]
    silent: Mapping[str, str]
    begun_at: float | None = None
    answer: CopyAnswer | None = None
    forgotten: bool = False


class NodeProfiler:
    """All plans of one engine; without a shared directory it makes no copies.

    Args:
        settings: What the administrator stated.
        calls: The engine's thread.
        tell: Takes reports.
    """

    def __init__(
        self, settings: SlurmSettings, calls: SlowCalls, tell: Callable[[ev.Report], None]
    ) -> None:
        self._settings = settings
        self._calls = calls
        self._tell = tell
        self._jobs: ProfilerJobs | None = None
        self._plans: dict[str, _Plan] = {}
        self._answers: dict[str, CopyAnswer] = {}

    def open(
        self, client: SlurmClient, identity: str, token: str, partition_of: Callable[[str], str]
    ) -> None:
        """Begin, and have what an earlier engine left ended; see ``ProfilerJobs``."""
        if self._settings.shared_dir is None:
            return
        self._jobs = ProfilerJobs(client, self._settings, identity, token, partition_of)
        self._calls.ask(self._jobs.sweep_operation, _SWEEP, internal=True)

    def close(self) -> None:
        """Forget all; the jobs end by themselves, or by the next engine."""
        self._jobs = None
        self._plans.clear()
        self._answers.clear()

    def take_action(self, action: act.EngineAction) -> bool:
        """Carry an action out, as far as it is about profiling; whether it is about that alone."""
        match action:
            case act.ProfileWorkload():
                self._profile(action)
                return True
            case act.StopWorkload(key=key):
                return self._stop(key)
            case act.ForgetWorkload(key=key):
                self._forget(key)
        return False

    def _profile(self, action: act.ProfileWorkload) -> None:
        """Run a plan once; a key whose plan is over gets the same answer again."""
        key = action.key
        if key in self._plans:
            return
        if key in self._answers:
            self._tell(self._answers[key])
        elif self._jobs is None:
            why = "without a shared directory (--shared-dir) nothing is profiled"
            self._tell(ev.ProfilingFailed(key, why))
        elif refusal := why_not_profiled(action):
            self._settle(key, ev.ProfilingFailed(key, refusal))
        else:
            name = self._jobs.name
            parts = {name(key, n): part for n, part in enumerate(_parts(action.plan))}
            orders = {
                name: CopyOrder(key, action.workload, part.plan, whole_cpus(part.plan.allocation))
                for name, part in parts.items()
            }
            together = {len(run.servers) for run in action.plan.further} - {1}
            silent = {f"further/{count} servers": _TOGETHER for count in together}
            self._calls.ask(self._jobs.begin_operation, _call(key), orders)
            self._plans[key] = _Plan(key, parts, silent)

    def _stop(self, key: str) -> bool:
        """End a plan; whether there is, or was, one of that key. The answer is ``stopped``."""
        if (plan := self._plans.get(key)) is not None:
            self._answer(plan, ev.ProfilingFailed(key, STOPPED))
            return True
        if key in self._answers:
            self._tell(self._answers[key])
        return key in self._answers

    def _forget(self, key: str) -> None:
        """Drop its answer; what is under way ends, and its answer is dropped, too."""
        if (plan := self._plans.get(key)) is not None:
            plan.forgotten = True
            self._answer(plan, ev.ProfilingFailed(key, STOPPED))
        self._answers.pop(key, None)

    def add_held(self, held: dict[str, Held]) -> None:
        """Add what copies hold by their plans, and where."""
        for plan in self._plans.values():
            for part in plan.parts.values():
                job = part.job
                if job is not None and job.nodes and not is_over(job):
                    before, own = held.get(part.plan.server, Held()), part.plan.allocation
                    held[part.plan.server] = Held(
                        before.cpu_millicpus + own.cpu_millicpus,
                        before.memory_bytes + own.memory_bytes,
                    )

    # --- what is seen ---------------------------------------------------------------------------

    def see(self, jobs: Mapping[str, SlurmJob]) -> None:
        """Take in the jobs by name, as they were listed after what was last taken."""
        for plan in self._plans.values():
            for name, part in plan.parts.items():
                part.job = jobs.get(name)
                if plan.begun_at is not None and (part.job is None or is_over(part.job)):
                    part.gone_at = part.gone_at or time.monotonic()

    def take(self, outcome: CallOutcome) -> bool:
        """Take in an outcome; whether it was of profiling."""
        jobs = self._jobs
        if jobs is None:
            return False
        if outcome.operation is jobs.sweep_operation:
            if outcome.error is not None:
                log.warning("earlier profiling: what it left stays: %s", outcome.error)
            elif not outcome.result:
                self._calls.ask(
                    outcome.operation, _SWEEP, delay_seconds=_SWEEP_SECONDS, internal=True
                )
            return True
        takes = {
            jobs.begin_operation: self._begun,
            jobs.read_operation: self._read,
            jobs.end_operation: self._ended,
        }
        take = takes.get(outcome.operation)
        plan = self._plans.get(outcome.key.removesuffix(_CALL))
        if take is not None and plan is not None:
            take(plan, outcome)
        return take is not None

    def _begun(self, plan: _Plan, outcome: CallOutcome) -> None:
        if outcome.error is not None:
            why = f"no profiler can be started: {outcome.error}"
            self._answer(plan, ev.ProfilingFailed(plan.key, why))
            return
        plan.begun_at = time.monotonic()
        self._ask_to_read(plan)

    def _ask_to_read(self, plan: _Plan) -> None:
        assert self._jobs is not None
        names = tuple(name for name, part in plan.parts.items() if part.answer is None)
        operation = self._jobs.read_operation
        self._calls.ask(
            operation, _call(plan.key), names, delay_seconds=_READ_SECONDS, internal=True
        )

    def _read(self, plan: _Plan, outcome: CallOutcome) -> None:
        if plan.answer is not None:
            return
        readings: Mapping[str, ProfilerReading] = outcome.result or {}
        for name, reading in readings.items():
            part, told = plan.parts[name], reading.answer
            part.answer, part.said = told and replace(told, key=plan.key), reading.said
        for part in plan.parts.values():
            if part.answer is None and (why := self._why_no_answer(plan, part)):
                part.answer = ev.ProfilingFailed(plan.key, why)
        own, *others = plan.parts.values()
        if isinstance(own.answer, ev.ProfilingFailed):
            self._answer(plan, own.answer)
        elif own.answer is not None and all(part.answer is not None for part in others):
            measured = own.answer.measurements
            measured = replace(measured, silent={**measured.silent, **plan.silent})
            for part in others:
                measured = _merged(measured, part)
            self._answer(plan, ev.ProfilingFinished(plan.key, measured))
        else:
            self._ask_to_read(plan)

    def _why_no_answer(self, plan: _Plan, part: _Part) -> str:
        """Why none will come; empty = one may."""
        now, server, job = time.monotonic(), part.plan.server, part.job
        patience_seconds = self._settings.pending_seconds
        if job is not None and job.state.upper() == "PENDING":
            waited = now - (plan.begun_at or now)
            if waited < patience_seconds:
                return ""
            return f"its profiler has waited {waited:.0f} s for {server} ({job.state_reason})"
        if part.gone_at is None:
            return ""
        has_failed = job is not None and bool(job.exit_code)  # Then it has written none.
        if not has_failed and now - part.gone_at < self._settings.lost_seconds:
            return ""
        state = job.state if job is not None else "nothing more of its job"
        return f"its profiler on {server} left no answer: Slurm says {state}" + (
            f"; {part.said}" if part.said else ""
        )

    # --- its end ----------------------------------------------------------------------------------

    def _answer(self, plan: _Plan, answer: CopyAnswer) -> None:
        if plan.answer is None and self._jobs is not None:
            plan.answer = answer
            self._ask_to_end(plan, 0.0)
            self._calls.hasten(_call(plan.key))

    def _ask_to_end(self, plan: _Plan, delay_seconds: float) -> None:
        assert self._jobs is not None
        self._calls.ask(
            self._jobs.end_operation,
            _call(plan.key),
            tuple(plan.parts),
            delay_seconds=delay_seconds,
            internal=True,
        )

    def _ended(self, plan: _Plan, outcome: CallOutcome) -> None:
        if outcome.error is not None:
            log.warning("%s: what its profiling left stays: %s", plan.key, outcome.error)
        elif not outcome.result:
            self._ask_to_end(plan, _END_SECONDS)
            return
        del self._plans[plan.key]
        if not plan.forgotten and plan.answer is not None:
            self._settle(plan.key, plan.answer)

    def _settle(self, key: str, answer: CopyAnswer) -> None:
        self._answers[key] = answer
        while len(self._answers) > MAX_ANSWERS:
            del self._answers[next(iter(self._answers))]
        self._tell(answer)


_CALL = " profile"
"""After the key of a plan: the key of its calls, beside those of a start of the same key."""


def _call(key: str) -> str:
    return f"{key}{_CALL}"


def _parts(plan: ProfilingPlan) -> Iterator[_Part]:
    """The plan's own runs, and those on each other server, which take as long."""
    own = replace(plan, further=(), apart=(), beside=())
    yield _Part(own)
    elsewhere: dict[tuple[str, str], list[int]] = {}
    for run in plan.further:
        if len(run.servers) == 1:
            place = run.servers[0], run.setting.platform
            elsewhere.setdefault(place, []).append(run.setting.configuration.cpu_millicpus)
    for (server, platform), cpus in elsewhere.items():
        yield _Part(replace(own, server=server, cpu_millicpus=tuple(cpus), sources=()), platform)


def _merged(own: Measurements, part: _Part) -> Measurements:
    if isinstance(part.answer, ev.ProfilingFinished):
        new = replace(part.answer.measurements, platform=part.platform)
        both = own.completed_by(new)
        silent = {f"further/{part.platform}/{what}": why for what, why in new.silent.items()}
        seconds = max(own.seconds, new.seconds)  # They ran side by side.
        return replace(
            both, total=own.total or new.total, seconds=seconds, silent={**own.silent, **silent}
        )
    why = part.answer.reason if part.answer is not None else "no answer"
    return replace(own, silent={**own.silent, f"further/{part.platform}": why})
