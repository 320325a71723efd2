"""When Slurm is looked at: soon while something starts or ends, and never all the time."""

import time
from collections.abc import Mapping
from math import inf

from wharfinger.engines.slow import Operation, SlowCalls
from wharfinger.engines.slurm.jobs import WatchedStarts
from wharfinger.engines.slurm.start import SlurmStart

_HURRIED_SECONDS = 0.2
"""Between two looks while something starts or ends, if Slurm answers fast."""
_STEADY_SECONDS = 1.0
_IDLE = 4.0
"""As a multiple of the last look's time, the least between two."""
_HURRY_FOR_SECONDS = 30.0
"""What has not begun or ended by then is looked at in the steady pace."""
_LOOK = " look"
"""The key of looks; no start's, which has no blank."""


class LookTiming:
    """When the next look is made, and which starts it is for.

    Args:
        starts: Of the engine, by key.
        calls: The thread on which looks are made.
        poll_seconds: Between two looks while nothing starts or ends.

    Attributes:
        watched: What is watched; read on the other thread, so it is replaced as a whole.
        changed: Something has changed that ``watched`` does not show.
        took_seconds: What the last look took.
    """

    def __init__(
        self, starts: Mapping[str, SlurmStart], calls: SlowCalls, poll_seconds: float
    ) -> None:
        self._starts = starts
        self._calls = calls
        self._poll_seconds = poll_seconds
        self.watched = WatchedStarts()
        self.changed = False
        self.took_seconds = 0.0
        self._hastened = False
        self._hurried_until = 0.0
        self._taken_at = -inf

    def watch(self) -> None:
        """Update what is to be watched."""
        live = [s for s in self._starts.values() if s.live and s.accepted]
        starting = tuple(s.key for s in live if s.started is None)
        running = tuple(s.key for s in live if s.started is not None)
        hurried = time.monotonic() < self._hurried_until
        self.watched = WatchedStarts(starting, running, hurried)
        self.changed = False

    def hurry(self) -> None:
        """Let Slurm be asked soon: by ``poll``, once for all that wants it."""
        self._hurried_until = time.monotonic() + _HURRY_FOR_SECONDS
        self._hastened = True
        self._calls.wake()

    def look_ahead(self) -> None:
        """Carry out what was wished since the last call."""
        if self.changed or self._hastened:
            self.watch()
        if self._hastened:
            self._hastened = False
            least = max(_HURRIED_SECONDS, _IDLE * self.took_seconds)
            since = time.monotonic() - self._taken_at
            self._calls.hasten(_LOOK, max(0.0, least - since))

    def ask(self, look: Operation) -> None:
        """Ask for the next look, now that the last one is taken in."""
        waiting = any(s.live and (s.started is None or s.stop_asked) for s in self._starts.values())
        if not waiting:
            self._hurried_until = 0.0
        self.watch()
        period = _HURRIED_SECONDS if self.watched.hurried else _STEADY_SECONDS
        # A Slurm that takes long is not asked all the time.
        delay_seconds = min(max(period, _IDLE * self.took_seconds), self._poll_seconds)
        self._taken_at = time.monotonic()
        self._calls.ask(look, _LOOK, delay_seconds=delay_seconds, internal=True)
