"""When a load generator that says nothing is to be started again."""

SILENT_SECONDS = 15.0
MAX_SILENT_SECONDS = 300.0
"""The patience doubles with every run that said nothing, up to this."""
GAPS = 3.0
"""A generator that reports rarely may be silent for so many of its longest gaps."""


class LoadPatience:
    """Follows one service's load generator through its runs.

    >>> patience = LoadPatience()
    >>> [patience.lost_after(now, 1, None, ready=True) for now in (0.0, 15.0, 15.1, 40.0)]
    [None, None, 15.1, None]
    >>> [patience.lost_after(now, 2, None, ready=True) for now in (50.0, 80.0, 80.5)]
    [None, None, 30.5]
    """

    def __init__(self) -> None:
        self._run = -1
        self._since = 0.0
        self._given_up = False
        self._limit_seconds = SILENT_SECONDS
        self._longest_gap_seconds = 0.0

    def lost_after(
        self, now: float, run: int, said_at: float | None, *, ready: bool
    ) -> float | None:
        """For how long it has been silent, when that is too long; told once for each run.

        ``run`` is its number, -1 = there is none; ``said_at`` the time of its newest number.
        """
        if run != self._run or not ready:
            self._run, self._since, self._given_up = run, now, False
        if said_at is not None and said_at > self._since:
            gap_seconds = said_at - self._since
            self._longest_gap_seconds = max(self._longest_gap_seconds, gap_seconds)
            self._limit_seconds = max(SILENT_SECONDS, GAPS * self._longest_gap_seconds)
            self._since = said_at
        silent_seconds = now - self._since
        if run < 0 or self._given_up or silent_seconds <= self._limit_seconds:
            return None
        self._given_up = True
        self._limit_seconds = min(2 * self._limit_seconds, MAX_SILENT_SECONDS)
        return silent_seconds
