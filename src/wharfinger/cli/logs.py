"""``wharfinger logs``: a workload's output, byte by byte as it was written."""

import argparse
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from wharfinger.cli.options import add_option, add_state, connect
from wharfinger.cli.readers import whole

if TYPE_CHECKING:
    from wharfinger.cli.client import Answer, Client

PIECE_BYTES = 256 * 1024
TAIL_BYTES = 64 * 1024
MAX_TAIL_BYTES = 64 * 1024**2
WAIT_SECONDS = 20.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("name", metavar="NAME", help="a workload")
    add_option(parser, "-f --follow", "go on until it has ended")
    add_option(parser, "--tail N", "begin with the last N lines", read=whole(0))
    add_state(parser)


def run(arguments: argparse.Namespace) -> None:
    """Copy its output to ours."""
    client = connect(arguments)
    offset, write = 0, sys.stdout.buffer.write
    if arguments.tail is not None:
        data, offset = _tail(client, arguments.name, arguments.tail)
        write(data)
        sys.stdout.buffer.flush()
    for data in _pieces(client, arguments.name, offset, follow=arguments.follow):
        write(data)
        sys.stdout.buffer.flush()


def _pieces(client: "Client", name: str, offset: int, *, follow: bool) -> Iterator[bytes]:
    while True:
        answer, offset = _read(client, name, offset, WAIT_SECONDS if follow else 0.0)
        if answer.body:
            yield answer.body
        elif not follow or answer.headers["wharfinger-ended"] == "true":
            return


def _tail(client: "Client", name: str, lines: int) -> tuple[bytes, int]:
    size = TAIL_BYTES
    while True:
        data, offset = _from_end(client, name, size)
        # A line end at the very end ends the last line, it does not begin another.
        ends = data.removesuffix(b"\n").count(b"\n")
        if ends >= lines or len(data) < size or size >= MAX_TAIL_BYTES:
            kept = data.removesuffix(b"\n").rsplit(b"\n", lines)
            tail = data[len(kept[0]) + 1 :] if len(kept) > lines else data
            return (tail if lines else b""), offset
        size *= 4


def _from_end(client: "Client", name: str, size: int) -> tuple[bytes, int]:
    answer, offset = _read(client, name, -size)
    pieces = [answer.body]
    while answer.body and sum(map(len, pieces)) < size:
        answer, offset = _read(client, name, offset)
        pieces.append(answer.body)
    return b"".join(pieces), offset


def _read(
    client: "Client", name: str, offset: int, wait_seconds: float = 0.0
) -> tuple["Answer", int]:
    query = {"offset": offset, "limit_bytes": PIECE_BYTES, "wait_seconds": wait_seconds}
    answer = client.call("GET", "workloads", name, "log", query=query)
    return answer, int(answer.headers["wharfinger-next-offset"])
