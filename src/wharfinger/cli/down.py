"""``wharfinger down``: stop the manager, and with ``--all`` its workloads, and wait for its end."""

import argparse
import json
import os
import select
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from wharfinger.cli.main import NOT_AS_EXPECTED, OK, complain
from wharfinger.cli.options import add_common, add_option, connect
from wharfinger.cli.output import Record, show
from wharfinger.cli.readers import seconds
from wharfinger.errors import Unavailable

if TYPE_CHECKING:
    from wharfinger.cli.client import Client

POLL_SECONDS = 0.1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    add_option(parser, "--all", "stop all workloads first, and wait for their end")
    add_option(parser, "--timeout DURATION", "wait no longer, e.g. 5m", read=seconds)
    add_common(parser)


def run(arguments: argparse.Namespace) -> int:
    """Stop it; 3 where it has not ended in time."""
    client = connect(arguments)
    client.get("status")
    has_ended = _watch(client)
    body = json.dumps({"workloads": arguments.all}).encode()
    answer: Record = client.send("POST", "stop", body=body, content_type="application/json")
    deadline = None if arguments.timeout is None else time.monotonic() + arguments.timeout
    ended = has_ended()
    while not ended and (deadline is None or time.monotonic() < deadline):
        time.sleep(POLL_SECONDS)
        ended = has_ended()
    stopped = answer["workloads"]
    also = f", with {len(stopped)} workload{'' if len(stopped) == 1 else 's'}" if stopped else ""
    result = {**answer, "outcome": "stopped" if ended else "stopping"}
    show(result, arguments.output, lambda: f"manager {result['outcome']}{also}")
    if ended:
        return OK
    complain(f"not ended in time: {client.address}; it ends when its workloads have ended")
    return NOT_AS_EXPECTED


def _watch(client: "Client") -> Callable[[], bool]:
    """Tells whether the manager has ended: its process, or, elsewhere, its listening."""
    pid = client.peer_pid()
    process = None
    if pid:
        with suppress(OSError):
            process = os.pidfd_open(pid)

    def has_ended() -> bool:
        if process is not None:
            return bool(select.select([process], [], [], 0)[0])
        client.close()
        try:
            client.get("status")
        except Unavailable:
            return True
        return False

    return has_ended
