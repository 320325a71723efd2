"""What a report means for the workload that it is about."""

from wharfinger.core import events as ev
from wharfinger.core.lifecycle import Phase, Trigger
from wharfinger.core.settings import DEFAULTS, CoreSettings
from wharfinger.core.state import WorkloadRecord


def answers_resize(event: ev.AllocationResized | ev.ResizeFailed, record: WorkloadRecord) -> bool:
    """Whether it is the answer to what is asked now, not to an earlier resize."""
    if record.phase is not Phase.ADJUSTING:
        return False
    unsaid = isinstance(event, ev.ResizeFailed) and not event.placements
    return unsaid or event.placements == record.planned


def trigger_of(
    event: ev.Event, record: WorkloadRecord, settings: CoreSettings = DEFAULTS
) -> Trigger:
    """What a report means for the workload that it is about."""
    match event:
        case ev.StartAccepted():
            return Trigger.ACCEPT
        case ev.WorkloadStarted():
            return Trigger.START
        case ev.AllocationResized() | ev.ResizeFailed():
            return Trigger.SETTLE
        case _ if record.revoking:
            return Trigger.REVOKE
        case _ if record.phase is Phase.MIGRATING:
            # However it ended: its user has said that it may be started again.
            return Trigger.REQUEUE
        case ev.StartFailed(retryable=retryable):
            again = retryable and record.start_failures + 1 < settings.max_start_failures
            return Trigger.RETRY if again else Trigger.GIVE_UP
        case ev.WorkloadFinished(exit_code=exit_code):
            return Trigger.SUCCEED if exit_code == 0 else Trigger.FAIL
        case ev.WorkloadVanished():
            return Trigger.VANISH
        case ev.ProfilingFinished() | ev.ProfilingFailed():
            return Trigger.PROFILED
        case ev.WorkloadClassified() | ev.ClassificationFailed():
            return Trigger.CLASSIFY
    raise TypeError(f"{type(event).__name__} is not a report about a workload")
