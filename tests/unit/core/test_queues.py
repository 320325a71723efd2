"""Which of those that wait are tried, and when again."""

import pytest

from tests.support.cluster import workload
from wharfinger.core.queues import WaitingQueues, entry_of
from wharfinger.core.state import WorkloadRecord
from wharfinger.model.decisions import ReasonCode


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
    assert queues.lengths(["fifo"]) == {"fifo": 0}


def _deferred(until: float = 50.0) -> tuple[WaitingQueues, WorkloadRecord]:
    queues, record = WaitingQueues(), WorkloadRecord(workload("batch"), 1, 0.0, queue="fifo")
    queues.join(record)
    record.retry_at, record.deferral = until, ReasonCode.INTERFERENCE
    queues.defer(record, until)
    return queues, record


def test_a_time_that_a_placement_named_is_the_latest() -> None:
    queues, record = _deferred()
    assert len(queues.open("fifo")) == 0
    queues.change("a")
    assert list(queues.open("fifo")) == [entry_of(record)]
    assert not queues.is_delayed(record)
    # Not placed, it is tried again at its time.
    assert queues.wake_at(10.0, 60.0) == 50.0
    queues.await_room(record, ["b"])
    assert queues.end_delays(50.0, 60.0)
    queues.change("b")
    assert list(queues.open("fifo")) == [entry_of(record)]
    assert queues.wake_at(50.0, 60.0) is None


def test_new_servers_end_a_wait_that_a_placement_named() -> None:
    queues, record = _deferred()
    queues.unpark_all()
    assert list(queues.open("fifo")) == [entry_of(record)]


def test_who_waits_for_the_same_time_again_is_told_nothing_new() -> None:
    queues, record = _deferred()
    queues.change("a")
    assert not queues.defer_again(record, 51.0, ReasonCode.INTERFERENCE)
    assert not queues.defer_again(record, 50.0, ReasonCode.NO_ROOM)
    assert queues.defer_again(record, 50.0000001, ReasonCode.INTERFERENCE)
    assert len(queues.open("fifo")) == 0
    queues.leave(record)
    queues.change("a")
    assert len(queues.open("fifo")) == 0


def test_one_that_was_preempted_waits_whatever_happens() -> None:
    queues, record = WaitingQueues(), WorkloadRecord(workload("batch"), 1, 0.0, queue="fifo")
    record.retry_at = 50.0
    queues.join(record)
    queues.change("a")
    assert len(queues.open("fifo")) == 0
    queues.unpark_all()
    assert queues.is_delayed(record)
    assert queues.end_delays(50.0, 60.0)
    assert list(queues.open("fifo")) == [entry_of(record)]
    assert not queues.is_delayed(record)


def test_a_clock_that_is_set_back_ends_every_wait() -> None:
    queues, record = _deferred(1e6)
    assert not queues.end_delays(1e6 - 1, 60.0)
    assert queues.wake_at(0.0, 60.0) == 0.0
    assert queues.end_delays(0.0, 60.0)
    assert list(queues.open("fifo")) == [entry_of(record)]
    assert queues.wake_at(0.0, 60.0) is None
