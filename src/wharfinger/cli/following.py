"""Streams that outlive a manager: ``get -w``, ``get events --follow`` and ``logs -f``.

What they follow is on disk, with its numbers: the next manager goes on where the last one ended.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from wharfinger.cli.main import complain
from wharfinger.cli.output import Record
from wharfinger.errors import Unavailable

if TYPE_CHECKING:
    from wharfinger.cli.client import Client

PATIENCE_SECONDS = 60.0
POLL_SECONDS = 20.0
"""The longest that one request for news takes."""
RETRY_SECONDS = 0.2
GATHER_SECONDS = 0.1
"""Changes within this time are looked at together."""
MAX_PAUSE_SECONDS = 2.0
_T = TypeVar("_T")


def patiently(client: "Client", ask: Callable[[], _T]) -> _T:
    """What is asked for, if need be from the next manager.

    ``Unavailable`` where none comes within ``PATIENCE_SECONDS``; what happens is told on standard
    error.
    """
    try:
        return ask()
    except Unavailable:
        complain(f"the manager is gone; waiting up to {PATIENCE_SECONDS:.0f} s for the next")
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        client.wait_for_manager(max(0.0, deadline - time.monotonic()))
        try:
            answer = ask()
        except Unavailable:
            if time.monotonic() >= deadline:
                raise
            time.sleep(RETRY_SECONDS)
        else:
            complain("there is a manager again; going on")
            return answer


def last_sequence(client: "Client") -> int:
    """The newest event's number."""
    sequence: int = client.get("status")["last_sequence"]
    return sequence


def events_after(client: "Client", sequence: int) -> Iterator[list[Record]]:
    """All events after this one, as they come; never ends."""
    query = {"after": sequence, "wait_seconds": POLL_SECONDS}
    while True:
        events: list[Record] = patiently(client, lambda: client.get("events", query=query))
        if events:
            yield events
            query["after"] = events[-1]["sequence"]


def changes(
    client: "Client",
    look: Callable[[], Sequence[Record]],
    signature: Callable[[Record], object],
) -> Iterator[tuple[list[Record], list[Record]]]:
    """What changed in a list since the time before, and what is gone from it; never ends.

    Args:
        client: Of a manager.
        look: Gets the list.
        signature: Of a record: whether it has changed.
    """
    before: dict[str, Record] = {}
    began = time.monotonic()
    after, records = last_sequence(client), look()
    while True:
        # Looking must not keep the manager busy, however much happens.
        took_seconds = time.monotonic() - began
        pause_seconds = min(MAX_PAUSE_SECONDS, max(GATHER_SECONDS, 4 * took_seconds))
        now = {record["name"]: record for record in records}
        changed = [
            r for n, r in now.items() if n not in before or signature(before[n]) != signature(r)
        ]
        yield changed, [record for name, record in before.items() if name not in now]
        before = now
        query = {"after": after, "limit": 1, "wait_seconds": POLL_SECONDS}
        if patiently(client, lambda query=query: client.get("events", query=query)):  # type: ignore[misc] # bound now
            time.sleep(pause_seconds)
        began = time.monotonic()
        # Before the list: what happens in between is seen the next time.
        after, records = patiently(client, lambda: (last_sequence(client), look()))
