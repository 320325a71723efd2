"""What becomes of starts: outcomes of calls, and what looks show, made into reports.

Lives on the manager's thread; what follows for Slurm is asked of ``jobs``.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from wharfinger.core import events as ev
from wharfinger.engines.slow import CallOutcome, SlowCalls
from wharfinger.engines.slurm.client.base import JobEnd, SlurmJob
from wharfinger.engines.slurm.ends import RunReading
from wharfinger.engines.slurm.jobs import SlurmJobs
from wharfinger.engines.slurm.looks import LookTiming
from wharfinger.engines.slurm.settings import SlurmSettings
from wharfinger.engines.slurm.start import NextStep, SlurmStart
from wharfinger.errors import InvalidInput
from wharfinger.host.reports import STOPPED_BEFORE_START, End

log = logging.getLogger(__name__)


class StartProgress:
    """Takes in what was found out of an engine's starts.

    Args:
        starts: Of the engine, by key.
        jobs: Does what is asked for.
        calls: The thread on which it does.
        looks: Told when something has changed.
        settings: What the administrator stated.
        tell: Takes reports.
    """

    def __init__(
        self,
        starts: Mapping[str, SlurmStart],
        jobs: SlurmJobs,
        calls: SlowCalls,
        looks: LookTiming,
        settings: SlurmSettings,
        tell: Callable[..., None],
    ) -> None:
        self._starts = starts
        self._jobs = jobs
        self._calls = calls
        self._looks = looks
        self._settings = settings
        self._tell = tell
        self._takes: dict[Any, Callable[[SlurmStart, CallOutcome], None]] = {
            jobs.begin_operation: self._begun,
            jobs.let_go_operation: self._begun,
            jobs.release_operation: self._released,
            jobs.stop_operation: self._stopped,
            jobs.control_operation: self._controlled,
            jobs.withdraw_operation: self._withdrawn,
            jobs.ends_operation: self._accounted,
            jobs.settle_operation: self._settled,
        }

    def take(self, outcome: CallOutcome) -> None:
        """Take in the outcome of a call."""
        take = self._takes.get(outcome.operation)
        start = self._starts.get(outcome.key)
        if take is not None and start is not None:
            take(start, outcome)
        elif outcome.error is not None:
            log.warning("%s: %s: %s", outcome.key, outcome.operation.name, outcome.error)

    def _begun(self, start: SlurmStart, outcome: CallOutcome) -> None:
        if outcome.error is None:
            start.note = replace(start.note, job_id=outcome.result)
            start.accepted = True
            self._tell(ev.StartAccepted(start.key))
            self._looks.hurry()
            return
        # Slurm has said no. That may be otherwise elsewhere or later: its limits, a node's state.
        retryable = not isinstance(outcome.error, InvalidInput)
        self.settle(start, ev.StartFailed(start.key, str(outcome.error), retryable))

    def _released(self, start: SlurmStart, outcome: CallOutcome) -> None:
        start.released = outcome.result is not False  # What failed may have had its effect.
        if outcome.error is not None and start.live and not start.stop_asked:
            log.warning("%s: its job can't be released: %s", start.key, outcome.error)

    def _stopped(self, start: SlurmStart, outcome: CallOutcome) -> None:
        if outcome.error is not None:
            log.warning("%s: its stop: %s", start.key, outcome.error)
        elif outcome.result and start.live:
            refusal = ev.StartFailed(start.key, STOPPED_BEFORE_START, retryable=False)
            self.settle(start, refusal)
        else:
            self._looks.hurry()

    def _controlled(self, start: SlurmStart, outcome: CallOutcome) -> None:
        placement = outcome.argument.placement
        if placement is None:
            if outcome.error is not None:
                log.warning("%s: %s", start.key, outcome.error)
        elif outcome.error is not None:
            self._tell(ev.ResizeFailed(start.key, str(outcome.error), (placement,)))
        elif start.live:
            start.note = replace(start.note, placements=(placement,))
            self._tell(ev.AllocationResized(start.key, (placement,)))

    def _withdrawn(self, start: SlurmStart, outcome: CallOutcome) -> None:
        if not start.live:
            return
        start.withdrawing = False
        if outcome.error is not None:
            log.warning("%s: it can't be withdrawn: %s", start.key, outcome.error)
        elif outcome.result:
            self.settle(start, start.why_withdrawn())
        else:
            self._looks.hurry()  # It has begun after all.

    def _accounted(self, start: SlurmStart, outcome: CallOutcome) -> None:
        if outcome.error is None:
            start.end_asked = True
            ended: JobEnd | None = outcome.result
            start.accounted = ended or start.accounted

    def settle(self, start: SlurmStart, end: End) -> None:
        """Note how it ended; then that is reported."""
        reports = [report for report in (start.started, end) if report is not None]
        start.note = start.note.with_reports(reports)
        start.settling = True
        settled = start.key, start.note
        self._calls.ask(self._jobs.settle_operation, start.key, settled, internal=True)

    def _settled(self, start: SlurmStart, outcome: CallOutcome) -> None:
        start.settling = False
        if outcome.error is not None:
            log.error("%s: its end can't be noted: %s", start.key, outcome.error)
            return
        _, start.end = start.note.read_reports()
        if start.end is not None:
            self._tell(start.end)
        self._looks.changed = True

    def see(self, start: SlurmStart, job: SlurmJob | None, reading: RunReading | None) -> None:
        """Take in what was seen of a start."""
        began = start.see(job, reading)
        if began is not None:
            self._tell(began)
            self._calls.ask(self._jobs.note_start_operation, start.key, began, internal=True)
            self._looks.changed = True

    def follow(self, start: SlurmStart, seconds: float) -> None:
        """Do what follows from what was seen; ``seconds`` since the look before."""
        settings, jobs = self._settings, self._jobs
        step = start.follow(seconds, settings.pending_seconds, settings.lost_seconds, self.settle)
        match step:
            case NextStep.CANCEL:
                self._calls.ask(jobs.kill_operation, f"{start.key} kill", start.key, internal=True)
            case NextStep.WITHDRAW:
                start.withdrawing = True
                self._calls.ask(jobs.withdraw_operation, start.key, start.key, internal=True)
            case NextStep.ASK_FOR_END:
                self._calls.ask(jobs.ends_operation, start.key, start.key, internal=True)
            case None:
                pass
