"""Any engine, with the faults that the core has to bear; for tests of the runtime.

All within the promises of ``wharfinger.engines.base``. What it does depends on its seed alone.

    >>> from random import Random
    >>> from wharfinger.testing import FaultyEngine, EngineFaults, MemoryCluster, MemoryEngine
    >>> cluster = MemoryCluster()
    >>> engine = FaultyEngine(lambda: MemoryEngine(cluster), Random(7), EngineFaults(duplicate=1.0))
    >>> engine.open()
    >>> [type(report).__name__ for report in engine.poll()]
    ['ServerReported', 'EngineSynced']
    >>> engine.close()
"""

import os
import select
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from random import Random

from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.engines.base import Engine, Execution, LogChunk, LogSource, Usage
from wharfinger.errors import EngineFault
from wharfinger.model.view import Capabilities
from wharfinger.model.workload import Workload

# An answer to an action; told late and twice it could be taken for a later action's answer. So a
# loss could be taken for one of what has taken its place since, and an offer for another one after
# it was withdrawn.
_ANSWERS = (
    ev.AllocationResized,
    ev.ResizeFailed,
    ev.PlacementsLost,
    ev.WorkloadOffered,
    ev.OfferWithdrawn,
    ev.ProfilingFinished,
    ev.ProfilingFailed,
)
_ANSWERED = (act.StartWorkload, act.ResizeAllocation, act.ProfileWorkload, act.ProbeWorkload)


@dataclass(frozen=True, slots=True)
class EngineFaults:
    """How often what goes wrong; each a probability from 0 to 1.

    Attributes:
        delay: A report is held back, and comes with one of the next calls of ``poll``.
        duplicate: A report comes twice.
        reorder: The reports of one call come in another order.
        refuse: A start, a resize or a profiling run raises ``EngineFault``, without effect.
        crash: Before an action or a poll the engine dies and another takes over; what it had
            not reported yet is reported again by the other.
    """

    delay: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0
    refuse: float = 0.0
    crash: float = 0.0


class FaultyEngine:
    """Wraps any engine; without faults it is that engine.

    ``make_engine`` makes it, and another one on the same state after a crash; ``faults`` may be
    changed at any time.

    Attributes:
        inner: The engine that is wrapped now.
        crashes: How often the engine has died.
        dead: Between ``die`` and ``revive``: actions raise, nothing is reported.
    """

    def __init__(
        self, make_engine: Callable[[], Engine], random: Random, faults: EngineFaults | None = None
    ) -> None:
        self.faults = faults or EngineFaults()
        self.crashes = 0
        self.dead = False
        self._make_engine = make_engine
        self._random = random
        self.inner = make_engine()
        self._held: list[ev.Report] = []
        self._synced = False
        self._refusals: list[EngineFault] = []
        self._epoll: select.epoll | None = None
        self._wake = -1

    @property
    def name(self) -> str:
        """The wrapped engine's."""
        return self.inner.name

    @property
    def capabilities(self) -> Capabilities:
        """The wrapped engine's."""
        return self.inner.capabilities

    # --- faults on request --------------------------------------------------------------------

    def refuse_next(self, message: str = "refused on request", *, retryable: bool = True) -> None:
        """Let the next action raise ``EngineFault``, without effect; may be called repeatedly."""
        self._refusals.append(EngineFault(message, retryable=retryable))

    def crash(self) -> None:
        """Die, losing what was not reported yet, and let another take over at once."""
        self.die()
        self.revive()

    def die(self) -> None:
        """Be gone until ``revive``: what runs goes on, unwatched."""
        self._opened().unregister(self.inner.fileno())
        self.inner.close()
        self._forget_reports()
        self.dead = True
        self.crashes += 1

    def revive(self) -> None:
        """Another engine takes over on the same state."""
        self.inner = self._make_engine()
        self._open()
        self.dead = False

    # --- the engine ---------------------------------------------------------------------------

    def open(self) -> None:
        """Open the wrapped engine; an open never fails on request."""
        # The descriptor's number must stay the same over a crash: the caller waits on it.
        self._epoll = select.epoll()
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._epoll.register(self._wake, select.EPOLLIN)
        self._open()

    def check(self, workload: Workload) -> str:
        """The wrapped engine's."""
        return self.inner.check(workload)

    def perform(self, action: act.EngineAction) -> None:
        """Pass the action on, or die first, or refuse it."""
        self._maybe_crash()
        if self._refusals:
            raise self._refusals.pop(0)
        if self.dead:
            raise EngineFault("the engine is dead", retryable=True)
        if isinstance(action, _ANSWERED) and self._happens(self.faults.refuse):
            raise EngineFault("refused by chance", retryable=True)
        self.inner.perform(action)

    def poll(self, timeout_seconds: float = 0.0) -> Sequence[ev.Report]:
        """The wrapped engine's reports, late, twice and in disorder, as the faults say."""
        self._maybe_crash()
        if self.dead:
            return []
        late, self._held = self._held, []
        fresh = self.inner.poll(0.0 if late else timeout_seconds)
        reports = [*late, *self._disturbed(fresh)]
        if self._happens(self.faults.reorder) and self._synced:
            self._random.shuffle(reports)
        self._synced = self._synced or any(isinstance(r, ev.EngineSynced) for r in reports)
        self._set_wake()
        return reports

    def fileno(self) -> int:
        """Readable when there are reports, held ones included; the same over a crash."""
        return self._opened().fileno()

    def usage(self) -> Mapping[str, Usage]:
        """The wrapped engine's."""
        return {} if self.dead else self.inner.usage()

    def read_log(
        self, key: str, offset: int = 0, limit_bytes: int = 65536, source: LogSource = "output"
    ) -> LogChunk:
        """The wrapped engine's."""
        return self.inner.read_log(key, offset, limit_bytes, source)

    def log_offset_at(self, key: str, seconds: float) -> int | None:
        """The wrapped engine's."""
        return self.inner.log_offset_at(key, seconds)

    def log_times(
        self, key: str, offset: int = 0, length_bytes: int = 65536
    ) -> Sequence[tuple[int, float]]:
        """The wrapped engine's."""
        return self.inner.log_times(key, offset, length_bytes)

    def execute(self, key: str, command: Sequence[str], *, stdin: bool = False) -> Execution:
        """The wrapped engine's."""
        return self.inner.execute(key, command, stdin=stdin)

    def close(self) -> None:
        """Close the wrapped engine. The same object may be opened again, as another engine."""
        if self._epoll is None:
            return
        self._forget_reports()
        self._epoll.close()
        os.close(self._wake)
        self._epoll = None
        if not self.dead:
            self.inner.close()
        self.inner, self.dead = self._make_engine(), False

    # --- pieces ---------------------------------------------------------------------------------

    def _open(self) -> None:
        self.inner.open()
        self._opened().register(self.inner.fileno(), select.EPOLLIN)

    def _opened(self) -> select.epoll:
        if self._epoll is None:
            raise EngineFault("the engine is not open")
        return self._epoll

    def _forget_reports(self) -> None:
        self._held, self._synced = [], False
        self._set_wake()

    def _disturbed(self, reports: Sequence[ev.Report]) -> list[ev.Report]:
        """Some held back, some doubled; none of those up to ``EngineSynced``."""
        if not self._synced:
            return list(reports)
        disturbed: list[ev.Report] = []
        for report in reports:
            if self._happens(self.faults.duplicate) and not isinstance(report, _ANSWERS):
                disturbed.append(report)
            held = self._happens(self.faults.delay)
            (self._held if held else disturbed).append(report)
        return disturbed

    def _set_wake(self) -> None:
        if self._held:
            os.eventfd_write(self._wake, 1)
        else:
            with suppress(BlockingIOError):  # It need not be set.
                os.eventfd_read(self._wake)

    def _maybe_crash(self) -> None:
        if not self.dead and self._happens(self.faults.crash):
            self.crash()

    def _happens(self, probability: float) -> bool:
        # Drawn only where a fault is on, so that switching one off leaves the others' draws.
        return probability > 0 and self._random.random() < probability
