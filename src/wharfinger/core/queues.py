"""The queues: what waits for a placement, and what is worth trying.

Derived from the records: a replay makes the same queues. ``ClusterState`` enters and removes
workloads; the pipeline tries the open ones when there may be room.
"""

from collections.abc import Iterable

from wharfinger.core.deadlines import Deadlines
from wharfinger.core.ordered import Ordered
from wharfinger.core.state import WorkloadRecord
from wharfinger.model.allocation import Placement

QueueEntry = tuple[int, int, str]
"""(-priority, uid, name): the order of service."""
_EMPTY: Ordered[QueueEntry] = Ordered()


class WaitingQueues:
    """Which workloads wait, and which of them are worth trying.

    Not tried are: a workload that no server can hold even when empty (until the servers change);
    one that waits for a few servers (until one has room); one whose placement named a time; one
    whose start failed (until its backoff ends); one behind a blocked head. So the cost of an event
    does not grow with the number that wait.

    Attributes:
        room_changed: Something happened after which a waiting workload may be placed.
    """

    def __init__(self) -> None:
        self.room_changed = True
        self._all: dict[str, Ordered[QueueEntry]] = {}
        self._open: dict[str, Ordered[QueueEntry]] = {}
        self._parked: dict[str, tuple[str, QueueEntry]] = {}
        self._awaited: dict[str, dict[str, None]] = {}
        self._blocked: dict[str, QueueEntry] = {}
        self._delays = Deadlines()
        self._waits = Deadlines()
        self._waiting: dict[str, tuple[str, QueueEntry]] = {}

    def length(self, queue: str) -> int:
        """How many wait in a queue."""
        return len(self._all.get(queue, ()))

    def open(self, queue: str) -> Ordered[QueueEntry]:
        """Workloads of a queue that may be tried, in order of service; live."""
        return self._open.get(queue, _EMPTY)

    def before(self, queue: str, entry: QueueEntry) -> int:
        """How many open ones are served before ``entry``."""
        return self.open(queue).before(entry)

    def join(self, record: WorkloadRecord) -> bool:
        """Enter a workload; whether it is worth trying at once."""
        entry = entry_of(record)
        for lines in (self._all, self._open):
            lines.setdefault(record.queue, Ordered()).add(entry)
        if record.not_before is not None:
            self._delays.put(record.name, record.not_before)
        if record.retry_at is not None:
            self.wait(record, record.retry_at)
        blocked = self._blocked.get(record.queue)
        return blocked is None or entry < blocked

    def leave(self, record: WorkloadRecord) -> None:
        """Take a workload out."""
        entry = entry_of(record)
        for lines in (self._all, self._open):
            lines[record.queue].remove(entry)
        self._parked.pop(record.name, None)
        self._delays.drop(record.name)
        self._waits.drop(record.name)
        self._waiting.pop(record.name, None)

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

    def wait(self, record: WorkloadRecord, until: float) -> None:
        """It is not tried before this time, whatever happens."""
        self.park(record)
        self._waiting[record.name] = record.queue, entry_of(record)
        self._waits.put(record.name, until)

    def free(self, placements: Iterable[Placement]) -> None:
        """There may be room on these servers: those that wait for it are tried again."""
        self.room_changed = True
        for placement in placements:
            for name in self._awaited.pop(placement.server, ()):
                # One that has left since, or is back in its queue, does not wait for it any more.
                queue, entry = self._parked.pop(name, ("", None))
                if entry is not None:
                    self._open[queue].add(entry)

    def unpark_all(self) -> None:
        """The servers have changed: everything parked is tried again."""
        self.room_changed = True
        self._parked.clear()
        self._awaited.clear()
        for queue, line in self._all.items():
            if len(self._open[queue]) != len(line):
                self._open[queue] = Ordered(line)

    def block(self, record: WorkloadRecord) -> None:
        """Those behind this one wait for it."""
        self._blocked[record.queue] = entry_of(record)

    def is_blocked(self) -> bool:
        """Whether the head of a queue waits for room."""
        return bool(self._blocked)

    def unblock(self) -> None:
        """There may be room: every workload is worth trying again."""
        self._blocked.clear()

    def is_delayed(self, record: WorkloadRecord) -> bool:
        """Whether it waits for a time: after a failed start, or as its placement named."""
        return record.name in self._delays or record.name in self._waits

    def wake_at(self, now: float, longest: float) -> float | None:
        """When the next delay or wait ends; ``None`` = there is none."""
        if not self._delays.heap and not self._waits.heap:
            return None
        due = []
        if (first := self._delays.first()) is not None:
            due.append(first[0] if _is_backing_off(now, first[0], longest) else now)
        if (first := self._waits.first()) is not None:
            due.append(first[0])
        return min(due, default=None)

    def end_delays(self, now: float, longest: float) -> bool:
        """End those delays and waits that are due; whether there were any."""
        if not self._delays.heap and not self._waits.heap:
            return False
        ended = False
        while (first := self._delays.first()) and not _is_backing_off(now, first[0], longest):
            self._delays.drop(first[1])
            ended = True
        while (first := self._waits.first()) and first[0] <= now:
            self._waits.drop(first[1])
            queue, entry = self._waiting.pop(first[1])
            if entry not in self._open[queue]:
                self._open[queue].add(entry)
            ended = True
        return ended


def entry_of(record: WorkloadRecord) -> QueueEntry:
    """A workload's place in the order of service."""
    return -record.workload.priority, record.uid, record.name


def _is_backing_off(now: float, until: float, longest: float) -> bool:
    """Whether a failed start still has to wait; more than ``longest`` means a clock set back."""
    return 0 < until - now <= longest
