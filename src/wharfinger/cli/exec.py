"""``wharfinger exec``: run a command beside a workload's program, as its user and in its directory.

Its output is copied to ours and its exit status becomes ours; it ends with our connection. A pipe
or a file on our input becomes its input.
"""

import argparse
import base64
import json
import os
import stat
import sys
from contextlib import suppress
from functools import partial
from threading import Thread
from typing import TYPE_CHECKING

from wharfinger.cli.main import NOT_RUN, complain
from wharfinger.cli.options import add_connection, add_option, connect
from wharfinger.errors import InvalidInput, Unavailable, WharfingerError

if TYPE_CHECKING:
    from wharfinger.cli.client import Client

PIECE_BYTES = 65536


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.passes_on = "words"  # type: ignore[attr-defined] # of our own parser class
    parser.add_argument("name", metavar="NAME", help="a workload that runs")
    words = "the command and its arguments, after --; no shell"
    parser.add_argument("words", metavar="COMMAND", nargs="*", help=words)
    words = "its input is ours, also a terminal's, by lines (default: ours if a pipe or file)"
    add_option(parser, "-i --stdin", words)
    add_connection(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run it; its exit status."""
    try:
        return _execute(arguments)
    except InvalidInput:
        raise
    except WharfingerError as error:
        complain(error)
        return NOT_RUN


def _execute(arguments: argparse.Namespace) -> int:
    outputs = {"stdout": sys.stdout.buffer, "stderr": sys.stderr.buffer}
    wanted: dict[str, object] = {"command": arguments.words}
    if arguments.stdin or _has_input():
        wanted["stdin"] = True
    body, client = json.dumps(wanted).encode(), connect(arguments)
    for line in client.stream("POST", "workloads", arguments.name, "exec", body=body):
        told = json.loads(line)
        if told["name"] == "end":
            return int(told["status"])
        if told["name"] == "begin":
            # It must not keep us: the command's end is ours.
            Thread(target=_send_input, args=(client, told["id"]), daemon=True).start()
            continue
        output = outputs[told["name"]]
        output.write(base64.b64decode(told["data"]))
        output.flush()
    raise Unavailable("the manager was stopped, which has ended the command")


def _has_input() -> bool:
    """Whether somebody has put a pipe or a file on our input."""
    try:
        mode = os.fstat(0).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)


def _send_input(client: "Client", execution: str) -> None:
    with suppress(WharfingerError, OSError):
        client.upload(iter(partial(os.read, 0, PIECE_BYTES), b""), "executions", execution, "input")
