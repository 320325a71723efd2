"""Whether a proxy may stand for the workload's own metric.

CPU time and instructions say how busy a program is, not how well it does: one that waits
actively is busy for nothing. So a proxy is compared with the target's own metric while both are
there, by rank (Spearman), which asks only that more of one goes with more of the other. One that
was found good enough may speak for the metric while that is silent.
"""

import math
from collections import deque
from collections.abc import Sequence
from statistics import fmean, median

WINDOW_SAMPLES = 60
LEAST_SAMPLES = 20
TRUSTED_CORRELATION = 0.7
"""Two unrelated series of 20 independent samples reach it in 0.03 % of windows; ones that drift do
more often (3 % where each sample keeps 0.9 of the last), over 60 samples rarely (simulated)."""


def ranks(values: Sequence[float]) -> list[float]:
    """Ranks from 1; equal values share the mean of theirs.

    >>> ranks([10, 30, 20, 20])
    [1.0, 4.0, 2.5, 2.5]
    """
    order = sorted(range(len(values)), key=values.__getitem__)
    found = [0.0] * len(values)
    start = 0
    while start < len(order):
        end = start
        while end < len(order) and values[order[end]] == values[order[start]]:
            end += 1
        for index in order[start:end]:
            found[index] = (start + 1 + end) / 2
        start = end
    return found


def rank_correlation(xs: Sequence[float], ys: Sequence[float]) -> float | None:
    """Spearman's ρ: the correlation of the ranks; ``None`` where one of them never changes.

    >>> rank_correlation([1, 2, 3], [10, 100, 1000])
    1.0
    """
    rx, ry = ranks(xs), ranks(ys)
    mx, my = fmean(rx), fmean(ry)
    xx = sum((x - mx) ** 2 for x in rx)
    yy = sum((y - my) ** 2 for y in ry)
    if not xx or not yy:
        return None
    xy = sum((x - mx) * (y - my) for x, y in zip(rx, ry, strict=True))
    return xy / math.sqrt(xx * yy)


class ProxyCheck:
    """Pairs of proxy and metric over the last minute or so, and what they say."""

    def __init__(self) -> None:
        self._pairs: deque[tuple[float, float]] = deque(maxlen=WINDOW_SAMPLES)
        self.correlation: float | None = None
        self._ratio = 0.0

    def compare(self, proxy: float, metric: float) -> None:
        """Take in one moment's two values."""
        self._pairs.append((proxy, metric))

    def judge(self) -> None:
        """Work out the correlation; called when it is to be reported, not for each sample."""
        if len(self._pairs) < LEAST_SAMPLES:
            return
        proxies, metrics = zip(*self._pairs, strict=True)
        self.correlation = rank_correlation(proxies, metrics)
        self._ratio = median(m / p for p, m in self._pairs if p > 0) if any(proxies) else 0.0

    @property
    def trusted(self) -> bool:
        """Whether it was found to go with the metric."""
        return self.correlation is not None and self.correlation >= TRUSTED_CORRELATION

    def estimate(self, proxy: float) -> float | None:
        """The metric by the proxy, at their median ratio; ``None`` = it is not trusted."""
        return proxy * self._ratio if self.trusted else None
