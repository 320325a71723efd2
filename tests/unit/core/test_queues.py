"""Which of those that wait are tried, and when again."""

import pytest

from tests.support.cluster import workload
from wharfinger.core.queues import WaitingQueues
from wharfinger.core.state import WorkloadRecord


def _waiting() -> tuple[WaitingQueues, WorkloadRecord]:
    queues, record = WaitingQueues(), WorkloadRecord(workload("batch"), 1, 0.0, queue="fifo")
    queues.join(record)
    queues.await_room(record, ["a", "b"])
    return queues, record


@pytest.mark.parametrize(("server", "tried"), [("a", 1), ("b", 1), ("c", 0)])
def test_who_waits_for_a_server_is_tried_again_when_it_changes(server: str, tried: int) -> None:
    queues, _ = _waiting()
    assert len(queues.open("fifo")) == 0
    queues.change(server)
    assert len(queues.open("fifo")) == tried


def test_who_has_left_is_not_tried_again() -> None:
    queues, record = _waiting()
    queues.leave(record)
    queues.change("a")
    assert len(queues.open("fifo")) == 0
    assert queues.length("fifo") == 0
