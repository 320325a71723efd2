"""One start on a Slurm cluster: what is known of it, and what follows from what is seen.

Lives on the manager's thread and decides; ``jobs`` does, on the thread of the slow calls.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from wharfinger.core import events as ev
from wharfinger.engines.slurm import ends
from wharfinger.engines.slurm.client.base import JobEnd, SlurmJob
from wharfinger.engines.slurm.ends import RunReading
from wharfinger.engines.slurm.script import NOT_SHARED
from wharfinger.engines.slurm.start_notes import StartNote
from wharfinger.host.reports import End
from wharfinger.host.run_dir import Claim
from wharfinger.model.allocation import Placement
from wharfinger.model.ends import NODE_FAILURE
from wharfinger.model.workload import Workload

MAX_STEP_SECONDS = 10.0
"""Counted of the time between two looks: while Slurm is away, nothing becomes overdue."""

MAX_LINGERING_SECONDS = 10.0
"""Of a job on several nodes, after its program has ended on all."""


class NextStep(Enum):
    """What has to be done for a start."""

    CANCEL = "cancel"
    """Its job is to be cancelled: it waits to run again, which it must not."""
    WITHDRAW = "withdraw"
    """It has waited too long, or nothing was started: make sure that nothing is."""
    ASK_FOR_END = "ask-for-end"
    """It is over without a record: what does accounting say?"""
    STOP_REST = "stop-rest"
    """It has failed on one of several nodes: stop it on the others."""


@dataclass(slots=True, eq=False)
class SlurmStart:
    """What one engine remembers of a start.

    Attributes:
        note: As it was noted last.
        supervised: It has a run directory.
        workload: What it is; ``None`` = an earlier engine started it, and that was not told yet.
        accepted: Slurm has its job.
        released: It was let go, perhaps; ``None`` = that is not decided yet.
        started, end: What was reported; an end only once it was noted.
        settling: Its end is being noted; ``withdrawing``: it is made sure that it never begins.
        had_begun: As of the last list of jobs but this.
        stop_asked: We were asked to stop it.
        waiting_seconds: For how long it has waited for its room.
        over_seconds: For how long it has been over without a word of how.
        ask_at_seconds: Of these, when accounting is asked next.
        end_asked: It has answered, if only that it does not know.
        lingering_seconds: For how long its job has gone on after its program ended on every node.
        rest_stopped: It failed on one node, and was asked to stop on the others.
    """

    key: str
    note: StartNote
    supervised: bool
    workload: Workload | None = None
    accepted: bool = False
    released: bool | None = None
    started: ev.WorkloadStarted | None = None
    end: End | None = None
    settling: bool = False
    stop_asked: bool = False
    withdrawing: bool = False
    had_begun: bool = False
    waiting_seconds: float = 0.0
    over_seconds: float = 0.0
    ask_at_seconds: float = 0.0
    end_asked: bool = False
    lingering_seconds: float = 0.0
    rest_stopped: bool = False
    job: SlurmJob | None = None
    reading: RunReading | None = None
    accounted: JobEnd | None = None
    usage: tuple[float, int] | None = None

    @property
    def live(self) -> bool:
        """Whether its end is still to come."""
        return self.end is None and not self.settling

    @property
    def running(self) -> bool:
        """Whether its program has begun and has not ended, as far as is known."""
        return self.started is not None and self.live

    def state(self) -> list[ev.Report]:
        """Its state, as reports."""
        if self.end is not None:
            return [report for report in (self.started, self.end) if report is not None]
        if self.started is not None:
            return [self.started, *self.losses()]
        return [ev.StartAccepted(self.key)] if self.accepted else []

    def losses(self) -> list[ev.PlacementsLost]:
        """The report of what it has lost so far, if anything."""
        lost = self.note.lost
        if not lost:
            return []
        servers = ", ".join(placement.server for placement in lost)
        why = f"{NODE_FAILURE}: Slurm has taken {servers} from its job"
        return [ev.PlacementsLost(self.key, lost, why)]

    def newly_lost(self) -> tuple[Placement, ...]:
        """Where its job is no more, though it goes on elsewhere."""
        job = self.job
        if not (self.note.several and self.live and job is not None and job.nodes):
            return ()
        if job.state.upper() == "PENDING":
            return ()
        lost = tuple(p for p in self.note.placements if p.server not in job.nodes)
        return lost if len(lost) < len(self.note.placements) else ()

    def see(self, job: SlurmJob | None, reading: RunReading | None) -> ev.WorkloadStarted | None:
        """Take in what was seen; the report that it has begun, once."""
        self.job = job
        self.reading = reading or self.reading
        if self.started is not None or not self.accepted:
            return None
        nodes = ", ".join(job.nodes) if job else ""
        handle = f"job {self.note.job_id}" + (f" on {nodes}" if nodes else "")
        if self.supervised and not (self.reading and self.reading.unshared):
            record = self.reading.record if self.reading else None
            if record is None or record.claim not in {Claim.TAKEN, Claim.UNREADABLE}:
                return None
            if record.started is not None:
                began = record.started.started_at_seconds
            elif record.exit is not None and record.exit.failed_step is None:
                began = record.exit.started_at_seconds
            else:
                return None
            self.started = ev.WorkloadStarted(self.key, handle, began)
        elif job is not None and job.nodes and job.state.upper() != "PENDING":
            self.started = ev.WorkloadStarted(self.key, handle, job.start_time)
        return self.started

    def follow(
        self,
        seconds: float,
        pending_seconds: float,
        lost_seconds: float,
        settle: Callable[["SlurmStart", End], None],
    ) -> NextStep | None:
        """What follows from what was seen of its job; called after each look at Slurm.

        Args:
            seconds: Since the look before.
            pending_seconds: How long it may wait for its room.
            lost_seconds: How long its records may take to show.
            settle: Notes its end.
        """
        job = self.job
        if not self.live or not self.accepted:
            return None
        step_seconds = min(seconds, MAX_STEP_SECONDS)
        if job is not None and not ends.is_over(job):
            return self._follow_live(job, step_seconds, pending_seconds, settle)
        if job is None and not self.supervised and self.started is None and not self.released:
            if self.released is not None:
                settle(self, ends.failed_start(self.key, None, None, stop_asked=self.stop_asked))
            return None
        if not self._has_begun(job):
            return None if self.withdrawing else NextStep.WITHDRAW
        if self._needs_cause(job) and self.over_seconds < lost_seconds:
            return self._ask_for_end(step_seconds)
        reading = self.reading
        if reading is not None:
            end = ends.end_of_run(
                self.key,
                reading,
                job or self.accounted,
                stop_asked=self.stop_asked,
                lost=bool(self.note.lost),
            )
            if end is not None:
                settle(self, end)
                return None
        if job is not None and self._lost_its_script(job):
            settle(self, ends.lost_script(self.key, job))
            return None
        if self.accounted is not None and self._accounted_as_never_begun():
            end = ends.failed_start(self.key, None, self.accounted, stop_asked=self.stop_asked)
            settle(self, end)
            return None
        step = self._ask_for_end(step_seconds)
        known = not self.supervised and (job is not None or self.accounted is not None)
        taken_off = job is not None and ends.was_taken_off(job)
        if known or taken_off or self.over_seconds >= lost_seconds:
            settle(
                self,
                ends.end_without_record(self.key, job, self.accounted, stop_asked=self.stop_asked),
            )
            return None
        return step

    def _lost_its_script(self, job: SlurmJob) -> bool:
        """Whether Slurm has ended it on several nodes because the first, with its script, failed.

        It ran on on the others, and Slurm says so only when that node comes back.
        """
        return bool(self.note.lost) and not self.stop_asked and ends.had_no_script(job)

    def _needs_cause(self, job: SlurmJob | None) -> bool:
        """Whether its record tells that it was killed, and accounting alone can tell by whom."""
        record = self.reading.record.exit if self.reading else None
        if record is None or self.reading is None or job is not None or self.end_asked:
            return False
        asked = self.stop_asked or self.reading.stop_asked
        return not asked and (record.stop_requested or record.signal is not None)

    def _accounted_as_never_begun(self) -> bool:
        has_claim = self.supervised and not (self.reading and self.reading.unshared)
        no_start = self.started is None and not has_claim
        return no_start and self.accounted is not None and ends.never_began(self.accounted)

    def _ask_for_end(self, step_seconds: float) -> NextStep | None:
        self.over_seconds += step_seconds
        if self.accounted is not None or self.over_seconds < self.ask_at_seconds:
            return None
        self.ask_at_seconds = 2 * self.over_seconds + 1
        return NextStep.ASK_FOR_END

    def _has_begun(self, job: SlurmJob | None) -> bool:
        """Whether its program may have begun."""
        if self.started is not None:
            return True
        if not self.supervised:
            return self.released is not False if job is None else ends.has_had_node(job)
        if self.reading is not None and self.reading.unshared:
            # Its directory was taken away, or is not mounted: what it would tell is not known.
            return job is None or (ends.has_had_node(job) and job.exit_code != NOT_SHARED)
        claim = self.reading.record.claim if self.reading else Claim.NONE
        return claim in {Claim.TAKEN, Claim.UNREADABLE}

    def _follow_live(
        self,
        job: SlurmJob,
        seconds: float,
        pending_seconds: float,
        settle: Callable[["SlurmStart", End], None],
    ) -> NextStep | None:
        if job.state.upper() != "PENDING":
            self.waiting_seconds, self.had_begun = 0.0, self._has_begun(job)
            return self._follow_parts(seconds) if self.note.several else None
        had_begun, self.had_begun = self.had_begun, self._has_begun(job)
        # Its claim may be newer than Slurm's list; one that is older tells.
        if self.had_begun and (had_begun or ends.was_requeued(job)):
            end = self.reading and ends.end_of_run(
                self.key, self.reading, job, stop_asked=self.stop_asked
            )
            settle(
                self, end or ends.evicted(self.key, "requeued", "Slurm put its job back in line")
            )
            return NextStep.CANCEL
        self.waiting_seconds += seconds
        if self.waiting_seconds < pending_seconds or self.withdrawing:
            return None
        return NextStep.WITHDRAW

    def _follow_parts(self, seconds: float) -> NextStep | None:
        """What follows on several nodes, while its job runs."""
        reading = self.reading
        if reading is None:
            return None
        if reading.part_failed and not (self.rest_stopped or self.stop_asked):
            self.rest_stopped = True
            return NextStep.STOP_REST
        # Its script was on a node that was lost: nothing is left that would end the job.
        self.lingering_seconds += seconds if reading.record.exit is not None else 0.0
        return NextStep.CANCEL if self.lingering_seconds > MAX_LINGERING_SECONDS else None

    def why_withdrawn(self) -> ev.StartFailed:
        """Why nothing was started, now that it is sure that nothing will be."""
        job = self.job
        if job is not None and job.state.upper() == "PENDING" and not self.stop_asked:
            servers = ", ".join(placement.server for placement in self.note.placements)
            room = f"no room on {servers}" if servers else ""
            said = f"Slurm says {job.state_reason}" if job.state_reason else "Slurm gives no reason"
            why = f"{room} in {self.waiting_seconds:.0f} s: {said}"
            return ev.StartFailed(self.key, why, retryable=True)
        return ends.failed_start(self.key, self.reading, job, stop_asked=self.stop_asked)
