"""Waits for something about workloads to hold, by the manager's events and not by polling.

``wait``, ``submit --wait`` and their likes call it; progress is shown on a terminal.
"""

import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from wharfinger.cli.following import last_sequence, patiently
from wharfinger.cli.output import Record
from wharfinger.cli.progress import Progress
from wharfinger.errors import NotFound

if TYPE_CHECKING:
    from wharfinger.cli.client import Client

NEWS_SECONDS = 10.0
MIN_PAUSE_SECONDS = 0.05
NAMES_PER_REQUEST = 100

T = TypeVar("T")
Judge = Callable[[Record | None], bool | None]
"""Whether what is waited for holds of a workload, whose record may be gone; ``False`` = it no
longer can, ``None`` = not yet."""


@dataclass(frozen=True, slots=True)
class Awaited:
    """A workload as it was seen last, and how its judge saw it."""

    name: str
    workload: Record | None
    holds: bool | None


def has_ended(workload: Record | None) -> bool | None:
    """A judge: it has ended, however."""
    return workload is None or workload["ended_at"] is not None or None


def wait_for(
    client: "Client",
    names: Sequence[str],
    judge: Judge,
    timeout_seconds: float | None,
    *,
    all_of_them: bool = True,
) -> list[Awaited]:
    """All of ``names``, in their order, when each is judged or the time is over.

    Args:
        client: Of the manager.
        names: Of workloads.
        judge: What is waited for.
        timeout_seconds: ``None`` = without end.
        all_of_them: Not only until the first of which it can no longer hold.

    Raises:
        Unavailable: The manager is gone, and no other has come within a minute.
    """
    judged: dict[str, Awaited] = {}

    def look() -> bool:
        pending = [name for name in names if name not in judged or judged[name].holds is None]
        found = _look(client, pending)
        for name in pending:
            judged[name] = Awaited(name, found.get(name), judge(found.get(name)))
        waiting = [one for one in judged.values() if one.holds is None]
        progress.tell(_progress(len(judged), waiting))
        failed = any(one.holds is False for one in judged.values())
        return not waiting or (failed and not all_of_them)

    with Progress() as progress:
        until(client, look, timeout_seconds)
    return [judged[name] for name in names]


def until(client: "Client", look: Callable[[], T], timeout_seconds: float | None) -> T:
    """What ``look`` says when that is true, or the time is over; it is called after news."""
    deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
    while True:
        began = time.monotonic()
        sequence = patiently(client, lambda: last_sequence(client))
        seen = patiently(client, look)
        left = NEWS_SECONDS if deadline is None else deadline - time.monotonic()
        if seen or left <= 0:
            return seen
        # Many events in a row are looked at together: asking must not slow the manager down.
        time.sleep(min(left, max(MIN_PAUSE_SECONDS, 4 * (time.monotonic() - began))))
        await_news(client, sequence, min(NEWS_SECONDS, max(0.0, left)))


def await_news(client: "Client", sequence: int, wait_seconds: float) -> None:
    """Return after the first event later than ``sequence``, or when the time is over."""
    query = {"after": sequence, "limit": 1, "wait_seconds": round(wait_seconds, 3)}
    patiently(client, lambda: client.get("events", query=query))


def _look(client: "Client", names: Collection[str]) -> dict[str, Record]:
    # The live in one answer: of many workloads, most are waited for a long time.
    live = {one["name"]: one for one in client.get("workloads", query={"phase": "live"})}
    return live | fetch(client, [name for name in names if name not in live])


def fetch(client: "Client", names: Sequence[str]) -> dict[str, Record]:
    """The workloads of these names, by name; those that are not there are left out."""
    if not names:
        return {}
    if len(names) <= NAMES_PER_REQUEST:
        try:
            listed = client.get("workloads", query={"name": list(names)})
            return {one["name"]: one for one in listed}
        except NotFound:
            if len(names) == 1:
                return {}
    half = len(names) // 2
    return fetch(client, names[:half]) | fetch(client, names[half:])


def _progress(total: int, waiting: Sequence[Awaited]) -> str:
    phases = Counter(one.workload["phase"] for one in waiting if one.workload)
    parts = [f"{total - len(waiting)} of {total} done"]
    return ", ".join(parts + [f"{count} {phase}" for phase, count in phases.items()])
