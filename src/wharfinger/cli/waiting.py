"""Waits for workloads to end, by the manager's events and not by polling.

``submit --wait`` and ``delete --wait`` call it; progress is shown on a terminal.
"""

import time
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from wharfinger.cli.output import Record
from wharfinger.cli.progress import Progress
from wharfinger.errors import Unavailable

if TYPE_CHECKING:
    from wharfinger.cli.client import Client

NEWS_SECONDS = 10.0
MIN_PAUSE_SECONDS = 0.05
NAMES_PER_REQUEST = 100


def wait_for_end(
    client: "Client", names: Sequence[str], timeout_seconds: float | None
) -> list[Record]:
    """The workloads, in the order of ``names``, when all have ended or the time is over.

    ``Unavailable`` where the manager is gone and no other comes within ten seconds.
    """
    deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
    wanted = set(names)
    with Progress() as progress:
        while True:
            began = time.monotonic()
            sequence, live = _look(client)
            waiting = [workload for workload in live if workload["name"] in wanted]
            progress.tell(_progress(len(wanted), waiting))
            left = NEWS_SECONDS if deadline is None else deadline - time.monotonic()
            if not waiting or left <= 0:
                break
            # Many events in a row are looked at together: asking must not slow the manager down.
            time.sleep(min(left, max(MIN_PAUSE_SECONDS, 4 * (time.monotonic() - began))))
            _await_news(client, sequence, min(NEWS_SECONDS, max(0.0, left)))
    workloads: dict[str, Record] = {}
    for start in range(0, len(names), NAMES_PER_REQUEST):
        query = {"name": list(names[start : start + NAMES_PER_REQUEST])}
        workloads |= {w["name"]: w for w in client.get("workloads", query=query)}
    return [workloads[name] for name in names]


def _look(client: "Client", *, again: bool = True) -> tuple[int, list[Record]]:
    try:
        sequence = client.get("status")["last_sequence"]
        return sequence, client.get("workloads", query={"phase": "live"})
    except Unavailable:
        if not again:
            raise
        # Another manager may be taking over: what runs goes on meanwhile.
        client.wait_for_manager()
        return _look(client, again=False)


def _await_news(client: "Client", sequence: int, wait_seconds: float) -> None:
    query = {"after": sequence, "limit": 1, "wait_seconds": round(wait_seconds, 3)}
    try:
        client.get("events", query=query)
    except Unavailable:
        client.wait_for_manager()


def _progress(total: int, waiting: Sequence[Record]) -> str:
    phases = Counter(workload["phase"] for workload in waiting)
    parts = [f"{total - len(waiting)} of {total} ended"]
    return ", ".join(parts + [f"{count} {phase}" for phase, count in phases.items()])
