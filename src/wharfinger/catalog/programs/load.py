"""A load generator for both services that is free of coordinated omission.

*Open loop* (``--rate``): requests come at their times, whether or not earlier ones were answered,
as those of many independent users do. Latency counts from the time at which a request was due,
also when it had to wait for a connection. *Closed loop* (without ``--rate``): each connection sends
its next request as soon as it is answered; that finds how much a service can do.

Each second (``--every``) one line reports the last ``--window`` seconds; ``latency_ms`` is at
``--percentile``. ``catalog.listing.LOAD_REPORT`` is its pattern for ``spec.measure.load``:

    second=12 offered=200.0 throughput=200.0 latency_ms=9.3 p50_ms=3.1 p99_ms=14 failed=0 waiting=0

``offered`` are the requests that were due since the last report, per second. A closed loop offers
what is answered, and does not tell it.
"""

import argparse
import asyncio
import random
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from wharfinger.catalog.programs import resp
from wharfinger.catalog.programs.serving import Connection, port
from wharfinger.catalog.programs.steps import sample_text, stop_in_order, whole

RECONNECT_SECONDS = 0.1
_DESCRIPTION = (
    "Drive a service. Each line of the report is: second=S offered=RATE throughput=RATE "
    "latency_ms=N p50_ms=N p99_ms=N failed=N waiting=N; offered, the requests that were due, only "
    "with --rate."
)


@dataclass(frozen=True, slots=True)
class LoadSchedule:
    """Requests a second from the beginning, then by steps: (second, rate from then on)."""

    rate_per_second: float
    steps: tuple[tuple[float, float], ...] = ()

    def rate(self, second: float) -> float:
        """Requests a second at a time.

        >>> [LoadSchedule(200, ((40, 320), (80, 200))).rate(second) for second in (0, 40, 79, 80)]
        [200, 320, 320, 200]
        """
        begun = [rate for since, rate in self.steps if second >= since]
        return begun[-1] if begun else self.rate_per_second

    def after(self, second: float, share: float = 1.0) -> float | None:
        """When the request after that of ``second`` comes; ``None`` = never.

        ``share`` is of the mean distance; 1 = evenly spaced.

        >>> LoadSchedule(0, ((40, 2),)).after(3), LoadSchedule(0).after(3)
        (40.5, None)
        """
        while not self.rate(second):
            second = min((since for since, _ in self.steps if since > second), default=-1.0)
            if second < 0:
                return None
        return second + share / self.rate(second)


class LoadWindow:
    """What became of the requests of the last seconds."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._ended: deque[tuple[float, float, bool]] = deque()

    def add(self, now: float, latency_seconds: float, *, succeeded: bool) -> None:
        """Count a request that has ended."""
        self._ended.append((now, latency_seconds, succeeded))

    def forget(self, now: float) -> None:
        """Drop what is older than the window."""
        while self._ended and self._ended[0][0] < now - self.seconds:
            self._ended.popleft()

    def latencies(self, pending_seconds: Sequence[float] = ()) -> list[float]:
        """All latencies, sorted; what has waited for longer than the window counts as well."""
        overdue = [age for age in pending_seconds if age > self.seconds]
        return sorted([latency for _, latency, _ in self._ended] + overdue)

    def outcomes(self) -> tuple[int, int]:
        """How many succeeded and how many failed."""
        succeeded = sum(done for _, _, done in self._ended)
        return succeeded, len(self._ended) - succeeded


def percentile(ordered: Sequence[float], percent: float) -> float:
    """By nearest rank; 0 where there is nothing.

    >>> percentile([1, 2, 3, 4], 50), percentile([1, 2, 3, 4], 99), percentile([], 99)
    (2, 4, 0.0)
    """
    if not ordered:
        return 0.0
    rank = -(-len(ordered) * percent // 100)
    return ordered[max(0, int(rank) - 1)]


@dataclass(frozen=True, slots=True)
class LoadRequest:
    """One request, by its number; ``intended`` is when to send it, in the schedule's seconds."""

    number: int
    intended: float


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a protocol asks (by a request's number) and answers (by the answer's beginning).

    ``answer_bytes`` is the length of the whole answer; ``None`` = not known yet.
    """

    encoded: Callable[[int], bytes]
    answer_bytes: Callable[[bytes], int | None]
    is_success: Callable[[bytes], bool]


class LoadClient(Connection):
    """One connection with at most one request under way; of an answer it reads only the length."""

    def __init__(
        self,
        dialect: Dialect,
        ended: "Callable[[LoadClient, LoadRequest, bool], None]",
        lost: "Callable[[LoadClient], None]",
    ) -> None:
        self.request: LoadRequest | None = None
        self.closed = False
        self._dialect, self._ended, self._lost = dialect, ended, lost
        self._head = b""
        self._missing_bytes = 0

    def connection_lost(self, exc: Exception | None) -> None:
        """Report the request under way as failed."""
        self.closed = True
        self._finish(succeeded=False)
        self._lost(self)

    def send(self, request: LoadRequest) -> None:
        """Send a request; there must be none under way."""
        self.request = request
        self.transport.write(self._dialect.encoded(request.number))

    def data_received(self, data: bytes) -> None:
        """Count what comes, until the answer is whole."""
        if self._missing_bytes:
            self._missing_bytes -= len(data)
        else:
            self._head += data
            size = self._dialect.answer_bytes(self._head)
            if size is None:
                return
            self._missing_bytes = size - len(self._head)
        if self._missing_bytes <= 0:
            self._missing_bytes = 0
            self._finish(succeeded=self._dialect.is_success(self._head))

    def _finish(self, *, succeeded: bool) -> None:
        request, self.request, self._head = self.request, None, b""
        if request is not None:
            self._ended(self, request, succeeded)


def _http(options: argparse.Namespace) -> Dialect:
    request = b"GET /document/%d HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: gzip\r\n\r\n"
    return Dialect(
        lambda number: request % (number % options.keys),
        _http_answer_bytes,
        lambda begin: begin[9:12] == b"200",
    )


def _http_answer_bytes(begin: bytes) -> int | None:
    r"""Of head and body.

    >>> _http_answer_bytes(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab")
    43
    """
    head, end, _ = begin.partition(b"\r\n\r\n")
    if not end:
        return None
    _, stated, rest = head.lower().partition(b"\r\ncontent-length:")
    return len(head) + 4 + (int(rest.partition(b"\r\n")[0]) if stated else 0)


def _redis(options: argparse.Namespace) -> Dialect:
    """An error is no success, nor is nil: what was asked for is not there."""
    value = sample_text(options.value_bytes) if options.write_every else b""

    def encoded(number: int) -> bytes:
        key = b"key:%d" % (number % options.keys)
        if options.write_every and number % options.write_every == 0:
            return resp.command(b"SET", key, value)
        return resp.command(b"GET", key)

    return Dialect(
        encoded,
        _redis_answer_bytes,
        lambda begin: begin[:1] in (b"+", b"$") and not begin.startswith(b"$-1"),
    )


def _redis_answer_bytes(begin: bytes) -> int | None:
    r"""Of a line, and what it announces.

    >>> _redis_answer_bytes(b"$5\r\nab"), _redis_answer_bytes(b"+O")
    (11, None)
    """
    line, end, _ = begin.partition(b"\r\n")
    if not end:
        return None
    size = int(line[1:]) if line.startswith(b"$") else -1
    return len(line) + 2 + (size + 2 if size >= 0 else 0)


DIALECTS = {"http": _http, "redis": _redis}
"""By the name that ``--protocol`` takes."""


class Generator:
    """Keeps requests coming and counts their results; no schedule = closed loop."""

    def __init__(self, options: argparse.Namespace, schedule: LoadSchedule | None) -> None:
        self._options = options
        self._schedule = schedule
        self._dialect = DIALECTS[options.protocol](options)
        self._random = random.Random(options.seed)
        self._window = LoadWindow(options.window)
        self._idle: list[LoadClient] = []
        self._busy: set[LoadClient] = set()
        self._waiting: deque[float] = deque()
        self._tasks: set[asyncio.Future[None]] = set()
        self._number = 0
        self._due = 0
        self._reported_at = 0.0
        self._connected_at = self._next = 0.0
        # Second 0 on the loop's clock.
        behind = max(0.0, time.time() - options.epoch) if options.epoch else 0.0
        self._zero = time.monotonic() - behind

    async def run(self) -> None:
        """Until the stated time is over, or without end."""
        every, end = self._options.every, self._options.seconds
        many = range(self._options.connections)
        await asyncio.gather(*(self._connect(patient=True) for _ in many))
        self._connected_at = self._next = self._reported_at = self._now()
        if self._schedule is None:
            for client in list(self._idle):
                self._send(client, self._now())
        else:
            self._arrive(self._schedule)
        tick = self._now() + every
        while not end or tick <= self._connected_at + end + 0.5:
            await asyncio.sleep(max(0.0, tick - self._now()))
            self._give_up()
            self._report()
            # After a stop of this program itself: no line for every second that it missed.
            tick = max(tick + every, self._now())

    def _now(self) -> float:
        return time.monotonic() - self._zero

    def _arrive(self, schedule: LoadSchedule) -> None:
        now = self._now()
        upcoming: float | None = self._next
        while upcoming is not None and upcoming <= now:
            self._waiting.append(upcoming)
            self._due += 1
            share = self._random.expovariate(1.0) if self._options.poisson else 1.0
            upcoming = schedule.after(upcoming, share)
        if upcoming is not None:
            self._next = upcoming
            asyncio.get_running_loop().call_later(upcoming - now, self._arrive, schedule)
        while self._waiting and self._idle:
            self._send(self._idle[-1], self._waiting.popleft())

    def _send(self, client: LoadClient, intended: float) -> None:
        self._idle.remove(client)
        self._busy.add(client)
        self._number += 1
        client.send(LoadRequest(self._number, intended))

    def _ended(self, client: LoadClient, request: LoadRequest, succeeded: bool) -> None:
        now = self._now()
        latency = now - request.intended
        if not succeeded:
            latency = max(latency, self._options.timeout)
        self._window.add(now, latency, succeeded=succeeded)
        self._busy.discard(client)
        if client.closed:
            return
        self._idle.append(client)
        if self._schedule is None:
            self._send(client, now)
        elif self._waiting:
            self._send(client, self._waiting.popleft())

    def _lost(self, client: LoadClient) -> None:
        if client in self._idle:
            self._idle.remove(client)
        self._busy.discard(client)
        task = asyncio.ensure_future(self._connect(patient=False))
        # The event loop itself holds tasks only weakly.
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _give_up(self) -> None:
        now, timeout = self._now(), self._options.timeout
        while self._waiting and self._waiting[0] < now - timeout:
            self._window.add(now, now - self._waiting.popleft(), succeeded=False)
        for client in list(self._busy):
            if client.request is not None and client.request.intended < now - timeout:
                client.transport.abort()

    async def _connect(self, *, patient: bool) -> None:
        loop, options = asyncio.get_running_loop(), self._options
        make = partial(LoadClient, self._dialect, self._ended, self._lost)
        while True:
            try:
                _, client = await loop.create_connection(make, options.host, options.port)
            except OSError:
                await asyncio.sleep(RECONNECT_SECONDS)
                continue
            self._idle.append(client)
            if not patient and self._schedule is None:
                self._send(client, self._now())
            return

    def _report(self) -> None:
        now = self._now()
        self._window.forget(now)
        pending = [now - intended for intended in self._waiting]
        pending += [now - c.request.intended for c in self._busy if c.request is not None]
        latencies = self._window.latencies(pending)
        succeeded, failed = self._window.outcomes()
        span = min(self._window.seconds, now - self._connected_at)
        chosen, median, high = (
            1000 * percentile(latencies, percent)
            for percent in (self._options.percentile, 50.0, 99.0)
        )
        line = (
            f"second={now:.0f} {self._offered(now)}throughput={succeeded / span:.1f} "
            f"latency_ms={chosen:.2f} p50_ms={median:.2f} p99_ms={high:.2f} failed={failed} "
            f"waiting={len(self._waiting)}"
        )
        print(line, flush=True)
        if self._options.log is not None:
            with self._options.log.open("a") as log:
                log.write(line + "\n")

    def _offered(self, now: float) -> str:
        seconds, due = now - self._reported_at, self._due
        self._reported_at, self._due = now, 0
        return "" if self._schedule is None or seconds <= 0 else f"offered={due / seconds:.1f} "


def _step(text: str) -> tuple[float, float]:
    """A second, and the rate from then on.

    >>> _step("40:320")
    (40.0, 320.0)
    """
    second, _, rate = text.partition(":")
    try:
        return _positive(second), _positive(rate)
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a step; write SECOND:RATE, e.g. 40:320"
        ) from None


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number; write e.g. 12.5")
    return value


def _interval(text: str) -> float:
    if (value := _positive(text)) < 0.01:
        raise argparse.ArgumentTypeError(f"{text!r} is too short; write 0.01 or more")
    return value


def _add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--protocol", choices=list(DIALECTS), default="http", help="default: http")
    add("--host", default="127.0.0.1", help="default: 127.0.0.1")
    add("--port", type=port, required=True, metavar="N", help="of the service")
    add("--connections", type=whole, default=16, metavar="N", help="default: 16")
    add("--rate", type=_positive, metavar="R", help="requests a second (default: closed loop)")
    add(
        "--step",
        type=_step,
        action="append",
        default=[],
        metavar="SECOND:RATE",
        help="the rate from that second on; repeatable",
    )
    add(
        "--epoch",
        type=_positive,
        default=0.0,
        metavar="SECONDS",
        help="when second 0 was, in seconds since 1970 (default: now)",
    )
    add("--poisson", action="store_true", help="random distances, not even ones")
    add("--seed", type=whole, default=0, metavar="N", help="of --poisson (default: 0)")
    add("--percentile", type=_positive, default=95.0, metavar="P", help="of latency_ms (95)")
    add("--window", type=_positive, default=3.0, metavar="SECONDS", help="default: 3")
    add("--every", type=_interval, default=1.0, metavar="SECONDS", help="between lines (1)")
    add("--timeout", type=_positive, default=3.0, metavar="SECONDS", help="users wait (3)")
    add("--log", type=Path, metavar="FILE", help="append the lines to this file too")
    add("--seconds", type=_positive, default=0.0, metavar="S", help="to run (default: no end)")
    add("--keys", type=whole, default=100, metavar="N", help="documents or keys asked for (100)")
    add("--write-every", type=whole, default=0, metavar="N", help="each N-th request is a SET")
    add("--value-bytes", type=whole, default=262144, metavar="N", help="of a SET (262144)")


def main() -> int:
    """Drive a service until the time is over."""
    parser = argparse.ArgumentParser(prog="load", description=_DESCRIPTION)
    _add_options(parser)
    options = parser.parse_args()
    if options.connections < 1 or options.keys < 1 or not options.window:
        parser.error("--connections, --keys and --window must be more than 0")
    if options.step and options.rate is None:
        parser.error("--step: needs --rate; without it the service's answers set the pace")
    steps = tuple(sorted(options.step))
    schedule = None if options.rate is None else LoadSchedule(options.rate, steps)
    stop_in_order()
    try:
        asyncio.run(Generator(options, schedule).run())
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
