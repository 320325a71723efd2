"""What load will be offered to a service soon, by its level, its trend and its seasons.

Of y, the logarithm of the load in buckets of time, h buckets ahead, with ȳ(m) the mean of the
newest m (Hyndman and Athanasopoulos, *Forecasting*, 3rd ed., 5.2 and 9.1):

    level    ȳ(m)
    trend    ȳ(m) + (h + (m - 1) / 2) b,  b = (ȳ(m) - ȳ(m) of m buckets before) / m
    season   y(t + h - P) + d̄(m),  d(t) = y(t) - y(t - P): the season before, raised or lowered to
             what today is beside it

Lengths P are proposed by autocorrelation, and patterns taken as they were, as in PRESS (Gong, Gu
and Wilkes, CNSM 2010). A trend or a season is one where its own past forecasts at this horizon
erred by less than ``WORTH`` of what the level did (scaled errors: Hyndman and Koehler, 2006). The
interval is by the ranks of those errors (split conformal prediction: Lei et al., JASA 2018).

Called by ``demand``, which decides what is done about it. Pure functions of the history.
"""

from dataclasses import dataclass
from math import ceil, exp, floor, log

import numpy as np
from numpy.typing import NDArray

from wharfinger.core.load_history import BUCKETS, LoadHistory
from wharfinger.core.tracking import LoadForecast

Floats = NDArray[np.float64]

WORTH = 0.5
"""Of the level's mean error, the most of a trend's or a season's."""
LEVEL, TREND = 2, 4
"""Buckets, m; a season has a quarter of it."""
MIN_SEASON = 8
"""Buckets."""
MIN_ERRORS = 8
HORIZONS = 4
"""Least length of a season, and half of that over which a trend is checked, in horizons: errors of
forecasts that overlap are of one kind."""
MAX_AHEAD = 8
"""Buckets to the horizon: finer ones are not looked at."""
RENEWED = 0.5
"""Of the horizon, after which the next is made: each takes some tenths of a millisecond."""
CANDIDATES = 4
MIN_CORRELATION = 0.3
SEARCH_EVERY = 8
"""Buckets between two searches for a season."""
KNOWN_SHARE = 0.75
"""Of a ring's newest buckets, those in which something was measured, if its level is taken."""
LEAST = 0.02
"""Of the mean load: what is less counts as so much, so that nothing has a logarithm."""


@dataclass(frozen=True, slots=True)
class _Series:
    """One ring: (n,) y of the buckets that have ended, NaN where nothing was measured."""

    ring: int
    y: Floats
    next_index: int

    @classmethod
    def of(cls, history: LoadHistory, ring: int) -> "_Series":
        values = np.array(history.rings[ring].means, dtype=np.float64)
        known = values[~np.isnan(values)]
        if not known.size or not known.any():
            return cls(ring, np.full(values.size, np.nan), history.rings[ring].index)
        y = np.log(np.maximum(values, LEAST * float(known.mean())))
        return cls(ring, y, history.rings[ring].index)

    def ahead(self, at: float) -> int:
        """How many buckets after the last that has ended a time is."""
        index = floor(at / LoadHistory.width_seconds(self.ring))
        return min(max(1, index - self.next_index + 1), BUCKETS)


@dataclass(frozen=True, slots=True)
class _Outlook:
    """What a model says: (J,) of the next buckets, and (E,) its past errors, ascending."""

    ahead: Floats
    errors: Floats
    horizon: int

    @property
    def error(self) -> float:
        """Mean, of the logarithm."""
        return float(np.abs(self.errors).mean()) if self.errors.size >= MIN_ERRORS else np.inf

    def soon(self) -> float:
        """At the horizon."""
        return float(self.ahead[self.horizon - 1])


@dataclass(frozen=True, slots=True)
class Forecaster:
    """Forecasts the load at a horizon; each bound is held with this confidence."""

    horizon_seconds: float
    confidence: float

    def forecast(
        self, history: LoadHistory, before: LoadForecast | None, now: float, keep_seconds: float
    ) -> LoadForecast | None:
        """The newest; ``None`` = too little is known.

        ``keep_seconds`` is how much further ahead a rise is a reason not to give CPU back.
        """
        soon, later = now + self.horizon_seconds, now + self.horizon_seconds + keep_seconds
        coarse = self._coarse_enough(history)
        ring = next((ring for ring in coarse if _is_filled(history, ring)), None)
        if ring is None:
            return None
        series = _Series.of(history, ring)
        steps = (series.ahead(soon), series.ahead(later))
        window = max(BUCKETS // 4, 2 * HORIZONS * steps[0])
        outlook, trend = _level(series.y, *steps, window), _trend(series.y, *steps, window)
        is_trend = trend.error <= WORTH * outlook.error and len(series.y) >= window
        outlook = trend if is_trend else outlook
        season, seasonal = self._season(history, before, now, later)
        if seasonal is not None and (not is_trend or seasonal.error <= trend.error):
            outlook, is_trend = seasonal, False
        else:
            season = None if seasonal is None else season
        rank = ceil((outlook.errors.size + 1) * self.confidence)
        if outlook.error == np.inf or rank > outlook.errors.size:
            return None  # There is no bound that is held with this confidence.
        low, high = float(outlook.errors[-rank]), float(outlook.errors[rank - 1])
        mean, most = outlook.soon(), float(outlook.ahead.max())
        if np.isnan(mean) or np.isnan(most):
            return None  # Nothing was measured lately.
        if is_trend or outlook is seasonal:
            seen = log(history.most_per_second)
            mean, most = min(mean, seen), min(most, seen)
        return LoadForecast(
            made_at=now,
            valid_until=now + RENEWED * self.horizon_seconds,
            horizon_seconds=self.horizon_seconds,
            mean_per_second=exp(mean),
            low_per_second=exp(mean + min(0.0, low)),
            high_per_second=exp(mean + max(0.0, high)),
            later_per_second=exp(most),
            error_log=outlook.error,
            is_trend=is_trend,
            season=season,
            by_season=outlook is seasonal,
        )

    def _coarse_enough(self, history: LoadHistory) -> list[int]:
        rings = range(len(history.rings))
        least = self.horizon_seconds / MAX_AHEAD
        return [ring for ring in rings if LoadHistory.width_seconds(ring) >= least]

    def _season(
        self, history: LoadHistory, before: LoadForecast | None, now: float, later: float
    ) -> tuple[tuple[int, int] | None, _Outlook | None]:
        """The ring and the buckets of a season, the one that was known first."""
        soon = now + self.horizon_seconds
        if before is not None and before.season is not None:
            ring, length = before.season
            if ring < len(history.rings):
                series = _Series.of(history, ring)
                known = _seasonal(series.y, series.ahead(soon), series.ahead(later), length)
                if known is not None:
                    return before.season, known
        searched = before.made_at if before is not None else -np.inf
        for ring in self._coarse_enough(history):
            every = SEARCH_EVERY * LoadHistory.width_seconds(ring)
            if searched // every == now // every or len(history.rings[ring].means) < 2 * MIN_SEASON:
                continue
            series = _Series.of(history, ring)
            steps = (series.ahead(soon), series.ahead(later))
            tried = ((length, _seasonal(series.y, *steps, length)) for length in _lengths(series.y))
            able = [(found.error, length, found) for length, found in tried if found is not None]
            if able:
                _, length, found = min(able, key=lambda each: each[:2])
                return (ring, length), found
        return None, None


def _is_filled(history: LoadHistory, ring: int) -> bool:
    """Whether enough of its newest buckets are known for their level."""
    newest = history.rings[ring].means[-4 * MIN_ERRORS :]
    known = sum(mean is not None for mean in newest)
    return known >= max(2 * MIN_ERRORS, KNOWN_SHARE * len(newest))


def _means(y: Floats, buckets: int) -> Floats:
    """(n,) of the newest of each; of those of them that are known."""
    known = ~np.isnan(y)
    sums = np.concatenate(([0.0], np.cumsum(np.where(known, y, 0.0))))
    counts = np.concatenate(([0], np.cumsum(known)))
    begin = np.maximum(np.arange(1, y.size + 1) - buckets, 0)
    count = counts[1:] - counts[begin]
    return np.where(count > 0, (sums[1:] - sums[begin]) / np.maximum(count, 1), np.nan)


def _errors(y: Floats, said: Floats, ahead: int, window: int) -> Floats:
    """Ascending, of the newest ``window`` that were forecast so many buckets ahead."""
    errors = (y[ahead:] - said[:-ahead])[-window:]
    return np.sort(errors[~np.isnan(errors)])


def _level(y: Floats, ahead: int, later: int, window: int) -> _Outlook:
    y = y[-window - ahead - LEVEL :]
    said = _means(y, LEVEL)
    return _Outlook(np.full(later, said[-1]), _errors(y, said, ahead, window), ahead)


def _trend(y: Floats, ahead: int, later: int, window: int) -> _Outlook:
    y = y[-window - ahead - 2 * TREND :]
    level = _means(y, TREND)
    slope = np.full(y.size, np.nan)
    slope[TREND:] = (level[TREND:] - level[:-TREND]) / TREND
    middle = (TREND - 1) / 2
    said = level + (ahead + middle) * slope
    steps = np.arange(1, later + 1) + middle
    return _Outlook(level[-1] + steps * slope[-1], _errors(y, said, ahead, window), ahead)


def _seasonal(y: Floats, ahead: int, later: int, length: int) -> _Outlook | None:
    """``None`` = it is no season of that length, or nothing tells what comes."""
    if length < HORIZONS * ahead or y.size < 2 * length:
        return None
    differences = y[length:] - y[:-length]
    level = _means(differences, max(LEVEL, length // 4))
    coming = y[-length:][: min(later, length)] + level[-1]
    outlook = _Outlook(coming, _errors(differences, level, ahead, length), ahead)
    without = _level(y, ahead, later, length)
    if np.isnan(coming).any() or not outlook.error <= WORTH * without.error:
        return None
    return outlook


def _lengths(y: Floats) -> list[int]:
    """Of seasons that there may be, in buckets: where the autocorrelation has its peaks."""
    known = ~np.isnan(y)
    if not known.any():
        return []
    off = np.where(known, y - y[known].mean(), 0.0)
    power = np.abs(np.fft.rfft(off, 2 * off.size)) ** 2
    most = off.size // 2
    sums = np.fft.irfft(power)[: most + 2]
    if not sums[0] > 0:
        return []
    correlation = sums / (off.size - np.arange(sums.size)) * (off.size / sums[0])
    inner = correlation[1:-1]
    peaks = np.flatnonzero((inner >= correlation[:-2]) & (inner > correlation[2:])) + 1
    peaks = peaks[(peaks >= MIN_SEASON) & (correlation[peaks] >= MIN_CORRELATION)]
    best = np.argsort(-correlation[peaks], kind="stable")[:CANDIDATES]
    return [int(length) for length in peaks[best]]
