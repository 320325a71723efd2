"""What has gone through a queue."""

from wharfinger.core.codec import decode_state, encode_state
from wharfinger.core.state import ManagerState
from wharfinger.model.queue_accounts import QueueAccount


def test_when_those_began_that_hold_resources_is_in_order() -> None:
    account = QueueAccount()
    for name, time in (("a", 5.0), ("b", 3.0), ("c", 5.0), ("a", 9.0)):
        account.place(name, time)
    assert account.began == [3.0, 5.0, 9.0]
    account.end("b", 10.0, has_run=True)
    account.end("b", 11.0, has_run=True)
    account.end("a", 12.0, has_run=False)
    assert (account.began, account.busy_seconds, account.ended) == ([5.0], [7.0], 1)


def test_a_snapshot_does_not_keep_twice_when_they_began() -> None:
    state = ManagerState()
    state.account("any").place("a", 5.0)
    payload = encode_state(state)
    assert b"began" not in payload
    again = decode_state(payload).account("any")
    again.end("a", 6.0, has_run=True)
    assert (again.began, again.busy_seconds) == ([], [1.0])
