"""``wharfinger logs``: a workload's output, byte by byte as it was written."""

import argparse
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from wharfinger.cli.following import patiently
from wharfinger.cli.main import complain
from wharfinger.cli.options import add_connection, add_option, connect, refuse
from wharfinger.cli.readers import seconds, whole
from wharfinger.errors import NotFound

if TYPE_CHECKING:
    from wharfinger.cli.client import Answer, Client

PIECE_BYTES = 256 * 1024
TAIL_BYTES = 64 * 1024
MAX_TAIL_BYTES = 64 * 1024**2
WAIT_SECONDS = 20.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("name", metavar="NAME", help="a workload")
    add_option(parser, "-f --follow", "go on until it has ended, also under the next manager")
    add_option(parser, "--tail N", "begin with the last N lines", read=whole(0))
    words = "only what was written within this time, e.g. 10m"
    add_option(parser, "--since DURATION", words, read=seconds)
    add_option(parser, "--timestamps", "begin each line with the time at which it was seen")
    add_option(parser, "--load", "of its load generator")
    add_option(
        parser, "-p --previous", "of the start before the newest, e.g. of the one that failed"
    )
    add_connection(parser)


def run(arguments: argparse.Namespace) -> None:
    """Copy its output to ours."""
    if arguments.previous:
        refuse(arguments, ["--follow"], "is not for a start that has ended")
    output = _Output(connect(arguments), arguments)
    write = sys.stdout.buffer.write
    if arguments.tail is not None:
        write(output.tail(arguments.tail))
        sys.stdout.buffer.flush()
    for data in output.pieces(follow=arguments.follow):
        write(data)
        sys.stdout.buffer.flush()


class _Output:
    """One workload's output, read on from where it was read to last."""

    def __init__(self, client: "Client", arguments: argparse.Namespace) -> None:
        self._client = client
        self._name: str = arguments.name
        options = {
            "source": "load" if arguments.load else None,
            "previous": arguments.previous or None,
            "since_seconds": arguments.since,
            "timestamps": arguments.timestamps or None,
        }
        self._query = {key: value for key, value in options.items() if value is not None}
        self._offset = 0
        self._key: str | None = None

    def pieces(self, *, follow: bool) -> Iterator[bytes]:
        """Until its end, or, where it is not followed, until now."""
        while True:
            before, offset = self._key, self._offset
            answer = self._read(offset, WAIT_SECONDS if follow else 0.0, patient=follow)
            if before and self._key != before:
                # Its program was started again, and has an output of its own.
                yield from self._rest(before, offset)
                complain(f"{self._name} was started again")
                self._offset = 0
            elif answer.body:
                yield answer.body
            elif not follow or answer.headers["wharfinger-ended"] == "true":
                return

    def tail(self, lines: int) -> bytes:
        """Its last lines; what follows them is read next."""
        size = TAIL_BYTES
        while True:
            data = self._from_end(size)
            # A line end at the very end ends the last line, it does not begin another.
            ends = data.removesuffix(b"\n").count(b"\n")
            if ends >= lines or len(data) < size or size >= MAX_TAIL_BYTES:
                kept = data.removesuffix(b"\n").rsplit(b"\n", lines)
                tail = data[len(kept[0]) + 1 :] if len(kept) > lines else data
                return tail if lines else b""
            size *= 4

    def _rest(self, key: str, offset: int) -> Iterator[bytes]:
        """What the start before has written since it was read; nothing where that is gone."""
        query = {**self._query, "previous": True, "limit_bytes": PIECE_BYTES}
        with suppress(NotFound):
            while True:
                answer = self._ask({**query, "offset": offset})
                if not answer.body or answer.headers.get("wharfinger-key") != key:
                    return
                yield answer.body
                offset = int(answer.headers["wharfinger-next-offset"])

    def _from_end(self, size: int) -> bytes:
        answer = self._read(-size)
        pieces = [answer.body]
        while answer.body and sum(map(len, pieces)) < size:
            answer = self._read(self._offset)
            pieces.append(answer.body)
        return b"".join(pieces)

    def _read(self, offset: int, wait_seconds: float = 0.0, *, patient: bool = False) -> "Answer":
        query: dict[str, Any] = {
            **self._query,
            "offset": offset,
            "limit_bytes": PIECE_BYTES,
            "wait_seconds": wait_seconds,
        }

        if patient and self._key is not None:
            answer = patiently(self._client, lambda: self._ask(query))
        else:
            answer = self._ask(query)
        self._key = answer.headers.get("wharfinger-key", "")
        self._offset = int(answer.headers["wharfinger-next-offset"])
        return answer

    def _ask(self, query: dict[str, Any]) -> "Answer":
        return self._client.call("GET", "workloads", self._name, "log", query=query)
