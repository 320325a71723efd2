"""The queues: what waits for a placement, and what is worth trying.

Derived from the records: a replay makes the same queues. ``ClusterState`` enters and removes
workloads; the pipeline tries the open ones when there may be room.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import NDArray

from wharfinger.core.deadlines import Deadlines
from wharfinger.core.ordered import Ordered
from wharfinger.core.state import WorkloadRecord
from wharfinger.model.allocation import Placement
from wharfinger.model.decisions import ReasonCode
from wharfinger.model.view import Request, View

QueueEntry = tuple[int, float, int, str]
"""(-priority, rank, uid, name): the order of service."""
SAME_SECONDS = 1e-3
"""Times that differ by less are the same: each is a sum of others."""
SET_BACK_SECONDS = 1.0
"""A clock that goes back by more was set, and what waits for a time is tried."""
_EMPTY: Ordered[QueueEntry] = Ordered()


@dataclass(frozen=True, slots=True)
class BlockedHead:
    """The first that waits for room, before others; the needs as in ``Refuse``."""

    request: Request
    cpu_needed: NDArray[np.int64] | None = None
    servers: int = 1

    @property
    def name(self) -> str:
        """The workload's."""
        return self.request.workload.name

    def needs(self, view: View) -> tuple[NDArray[np.int64], int]:
        """(S,) thousandths of a CPU, and bytes of memory, that it would get on one server."""
        reserved, needed = self.request.reserved(view.capabilities), self.cpu_needed
        if needed is None or len(needed) != len(view.names):
            needed = np.full(len(view.names), reserved.cpu_millicpus, dtype=np.int64)
        return needed, reserved.memory_bytes


class BlockedHeads:
    """The first of each queue that waits for room, and those behind it that may be placed ahead.

    Attributes:
        tried: Names of those behind them that were tried when room changed last.
    """

    def __init__(self) -> None:
        self.tried: set[str] = set()
        self._heads: dict[str, tuple[QueueEntry, BlockedHead | None]] = {}
        self._arrived: dict[str, None] = {}

    def put(self, record: WorkloadRecord, head: BlockedHead | None) -> None:
        """Those behind this one wait for it; without ``head``, nothing may be placed ahead."""
        self._heads[record.queue] = entry_of(record), head

    def entry(self, queue: str) -> QueueEntry | None:
        """The place of a queue's blocked head; ``None`` = it is not blocked."""
        return self._heads[queue][0] if queue in self._heads else None

    def of(self, queue: str) -> BlockedHead | None:
        """The blocked head of a queue, ahead of which others may be placed; ``None`` = none."""
        return self._heads[queue][1] if queue in self._heads else None

    def before(self, record: WorkloadRecord) -> list[BlockedHead | None]:
        """Those that come before this workload by priority, and use more than what others leave."""
        priority, leaves = entry_of(record)[0], not record.workload.best_effort
        heads = [head for entry, head in self._heads.values() if entry[0] <= priority]
        return [h for h in heads if not (leaves and h and h.request.workload.best_effort)]

    def names(self) -> list[str]:
        """Of all that block a queue."""
        return [entry[3] for entry, _ in self._heads.values()]

    def clear(self) -> None:
        """There may be room: every workload is worth trying again."""
        self._heads.clear()
        self._arrived.clear()

    def arrive(self, name: str) -> None:
        """It has come behind a head, and is to be tried."""
        self._arrived[name] = None

    def take_arrived(self) -> list[str]:
        """Names of those that have come since the last call."""
        arrived, self._arrived = list(self._arrived), {}
        return arrived

    def leave(self, name: str) -> None:
        """It does not wait any more."""
        self.tried.discard(name)
        self._arrived.pop(name, None)


class _Lengths(Mapping[str, int]):
    """Counted when it is asked: admissions are asked often, and mostly about servers alone."""

    def __init__(self, lines: Mapping[str, Ordered[QueueEntry]], queues: Sequence[str]) -> None:
        self._lines, self._queues = lines, queues

    def __getitem__(self, queue: str) -> int:
        if queue not in self._queues:
            raise KeyError(queue)
        return len(self._lines.get(queue, ()))

    def __iter__(self) -> Iterator[str]:
        return iter(self._queues)

    def __len__(self) -> int:
        return len(self._queues)


class WaitingQueues:
    """Which workloads wait, and which of them are worth trying.

    Not tried are: a workload that no server can hold even when empty (until the servers change);
    one that waits for a few servers (until one has room); one whose placement named a time (until
    then, or until there may be more room); one that was preempted or whose start failed (until its
    time has come); one behind a blocked head. So the cost of an event does not grow with the number
    that wait.

    Attributes:
        backfill: How many behind a blocked head are tried.
        heads: Those that block their queues.
    """

    def __init__(self) -> None:
        self._anything_changed = True
        self._freed: dict[str, None] = {}
        self.heads = BlockedHeads()
        self._all: dict[str, Ordered[QueueEntry]] = {}
        self._open: dict[str, Ordered[QueueEntry]] = {}
        self._parked: dict[str, tuple[str, QueueEntry]] = {}
        self._awaited: dict[str, dict[str, None]] = {}
        self.backfill = 0
        self._delays = Deadlines()
        self._waits = Deadlines()
        self._waiting: dict[str, tuple[str, QueueEntry]] = {}
        self._held: set[str] = set()
        self._lapses = Deadlines()
        self._excluding: dict[str, tuple[str, QueueEntry]] = {}
        self._latest = -inf
        self._deferred: dict[str, None] = {}

    @property
    def room_changed(self) -> bool:
        """Something happened after which a waiting workload may be placed."""
        return self._anything_changed or bool(self._freed)

    @room_changed.setter
    def room_changed(self, changed: bool) -> None:
        self._anything_changed = changed
        if not changed:
            self._freed.clear()

    def freed(self) -> tuple[str, ...] | None:
        """The servers where alone there may be more room than before; ``None`` = anywhere."""
        return None if self._anything_changed else tuple(self._freed)

    def lengths(self, queues: Sequence[str]) -> Mapping[str, int]:
        """How many wait in each of these queues; live."""
        return _Lengths(self._all, queues)

    def outside(self, queues: Sequence[str]) -> list[str]:
        """Names of those that wait in none of these queues."""
        others = [line for queue, line in self._all.items() if queue not in queues]
        return [entry[3] for line in others for entry in line]

    def open(self, queue: str) -> Ordered[QueueEntry]:
        """Workloads of a queue that may be tried, in order of service; live."""
        return self._open.get(queue, _EMPTY)

    def before(self, queue: str, entry: QueueEntry) -> int:
        """How many open ones are served before ``entry``."""
        return self.open(queue).before(entry)

    def waiting_before(self, queue: str, entry: QueueEntry) -> int:
        """How many are before ``entry``, open or not."""
        return self._all.get(queue, _EMPTY).before(entry)

    def join(self, record: WorkloadRecord) -> bool:
        """Enter a workload; whether it is worth trying at once."""
        entry = entry_of(record)
        for lines in (self._all, self._open):
            lines.setdefault(record.queue, Ordered()).add(entry)
        if record.not_before is not None:
            self._delays.put(record.name, record.not_before)
            if record.excluded:
                self._excluding[record.name] = record.queue, entry
        if record.retry_at is not None:
            # A placement that named the time has said why; one that was preempted was told nothing.
            wait = self._wait if record.deferral is None else self.defer
            wait(record, record.retry_at)
        head = self.heads.entry(record.queue)
        return head is None or entry < head

    def arrive(self, record: WorkloadRecord) -> None:
        """It has come behind a blocked head, and is tried if few are between them."""
        head = self.heads.entry(record.queue)
        assert head is not None
        between = self.before(record.queue, entry_of(record)) - self.before(record.queue, head)
        if between <= self.backfill:
            self.heads.arrive(record.name)

    def leave(self, record: WorkloadRecord) -> None:
        """Take a workload out."""
        entry = entry_of(record)
        for lines in (self._all, self._open):
            lines[record.queue].remove(entry)
        self._parked.pop(record.name, None)
        self.heads.leave(record.name)
        for times in (self._delays, self._waits, self._lapses):
            times.drop(record.name)
        self._excluding.pop(record.name, None)
        self._waiting.pop(record.name, None)
        self._held.discard(record.name)
        self._deferred.pop(record.name, None)

    # --- what need not be tried ----------------------------------------------------------

    def park(self, record: WorkloadRecord) -> None:
        """It is not tried before the servers change."""
        self._open[record.queue].remove(entry_of(record))

    def await_room(self, record: WorkloadRecord, servers: Iterable[str]) -> None:
        """It is not tried before there is room on one of these servers."""
        self.park(record)
        self._parked[record.name] = record.queue, entry_of(record)
        for server in servers:
            self._awaited.setdefault(server, {})[record.name] = None

    def _wait(self, record: WorkloadRecord, until: float) -> None:
        """It is not tried before this time, whatever happens."""
        self._park_until(record, until)
        self._held.add(record.name)

    def defer(self, record: WorkloadRecord, until: float) -> None:
        """It is tried at this time, or earlier if there may be more room."""
        self._park_until(record, until)
        self._deferred[record.name] = None

    def defer_again(self, record: WorkloadRecord, until: float, reason: ReasonCode) -> bool:
        """``defer`` where its record says so already, for this reason; whether it does."""
        at = record.retry_at
        if at is None or record.deferral is not reason or abs(at - until) > SAME_SECONDS:
            return False
        self.defer(record, at)
        return True

    def _park_until(self, record: WorkloadRecord, until: float) -> None:
        self.park(record)
        self._waiting[record.name] = record.queue, entry_of(record)
        self._waits.put(record.name, until)

    def free(self, placements: Iterable[Placement]) -> None:
        """There may be room on these servers: those that wait for it are tried again."""
        for placement in placements:
            self.change(placement.server)

    def change(self, server: str) -> None:
        """There may be room, or a better place, on this server: try again what waits for it."""
        self._freed[server] = None
        self._reopen_deferred()
        for name in self._awaited.pop(server, ()):
            # One that has left since, or is back in its queue, does not wait for it any more.
            if name in self._parked:
                self._reopen(*self._parked.pop(name))

    def _reopen_deferred(self) -> None:
        """Their times remain: one that is not tried by then, or not placed, is tried again."""
        for name in self._deferred:
            self._reopen(*self._waiting[name])
        self._deferred.clear()

    def _reopen(self, queue: str, entry: QueueEntry) -> None:
        if entry not in self._open[queue]:
            self._open[queue].add(entry)

    def unpark_all(self) -> None:
        """The servers have changed: everything parked is tried again."""
        self.room_changed = True
        self._deferred.clear()
        self._parked.clear()
        self._awaited.clear()
        for queue, line in self._all.items():
            if len(self._open[queue]) != len(line):
                self._open[queue] = Ordered(line)

    def is_delayed(self, record: WorkloadRecord) -> bool:
        """Whether it may not be tried yet: after a failed start, or when it was preempted."""
        return record.name in self._delays or record.name in self._held

    def wake_at(self, now: float, longest: float) -> float | None:
        """When the next delay or wait ends; ``None`` = there is none."""
        due = [
            first[0] if _is_ahead(now, first[0], most) else now
            for times, most in ((self._delays, longest), (self._lapses, 2 * longest))
            if (first := times.first()) is not None
        ]
        if (first := self._waits.first()) is not None:
            due.append(now if self._is_set_back(now) else first[0])
        return min(due, default=None)

    def end_delays(self, now: float, longest: float) -> bool:
        """End those delays and waits that are due; whether there were any.

        A server that failed to start a workload is tried again ``longest`` after its delay.
        """
        set_back, self._latest = self._is_set_back(now), now
        ended = False
        while (first := self._delays.first()) and not _is_ahead(now, first[0], longest):
            at, name = first
            self._delays.drop(name)
            if name in self._excluding:
                self._lapses.put(name, at + longest)
            ended = True
        while (first := self._lapses.first()) and not _is_ahead(now, first[0], 2 * longest):
            self._lapses.drop(first[1])
            self._reopen(*self._excluding.pop(first[1]))
            ended = True
        while (first := self._waits.first()) and (set_back or first[0] <= now):
            self._waits.drop(first[1])
            self._held.discard(first[1])
            self._deferred.pop(first[1], None)
            self._reopen(*self._waiting.pop(first[1]))
            ended = True
        return ended

    def _is_set_back(self, now: float) -> bool:
        return now < self._latest - SET_BACK_SECONDS


def entry_of(record: WorkloadRecord) -> QueueEntry:
    """A workload's place in the order of service."""
    return -record.workload.priority, record.rank, record.uid, record.name


def _is_ahead(now: float, until: float, longest: float) -> bool:
    """Whether this time is still to come; more than ``longest`` ahead means a clock set back."""
    return 0 < until - now <= longest
