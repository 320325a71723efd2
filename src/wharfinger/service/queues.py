"""Queues as the API shows them; reads the manager's state only."""

from pydantic import Field

from wharfinger.core.lifecycle import Phase
from wharfinger.core.pipeline import Core
from wharfinger.core.state import WorkloadRecord
from wharfinger.service.models import ApiModel
from wharfinger.service.workloads import wait_seconds


class QueueModel(ApiModel):
    """A queue of waiting workloads."""

    name: str
    length: int
    first: str | None = Field(description="The next to be served; `null` = none waits.")
    oldest_wait_seconds: float | None = Field(description="The longest wait; `null` = none waits.")


def waiting_by_queue(manager: Core) -> dict[str, list[WorkloadRecord]]:
    """The workloads of each queue, in the order in which they are served."""
    waiting: dict[str, list[WorkloadRecord]] = {name: [] for name in manager.queue_lengths()}
    for record in manager.state.workloads.values():
        if record.phase is Phase.QUEUED:
            waiting.setdefault(record.queue, []).append(record)
    for queue in waiting.values():
        queue.sort(key=lambda record: (-record.workload.priority, record.uid))
    return waiting


def queues(manager: Core, now: float) -> list[QueueModel]:
    """Every queue, in the order in which they are served."""
    return [
        QueueModel(
            name=name,
            length=len(queue),
            first=queue[0].name if queue else None,
            oldest_wait_seconds=max((wait_seconds(record, now) for record in queue), default=None),
        )
        for name, queue in waiting_by_queue(manager).items()
    ]
