"""CPU time, throttling and instructions, and whether these may stand for the workload's own metric.

They say how busy a program is, not how well it does. So a proxy is compared with the target's own
metric by rank (Spearman); one that passes stands for the metric while that is silent.
"""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from statistics import StatisticsError, correlation, median

from wharfinger.model.performance import Quantity, Reading
from wharfinger.monitor import counters
from wharfinger.monitor.smoothing import Counter
from wharfinger.monitor.spec import WatchSpec

WINDOW_SAMPLES = 60
MIN_SAMPLES = 20
TRUSTED_CORRELATION = 0.7
"""Two unrelated series of 20 independent samples reach it in 0.03 % of windows (simulated), and in
3 % where each sample keeps 0.9 of the last; over 60 samples rarely."""


def ranks(values: Sequence[float]) -> list[float]:
    """Ranks from 1; equal values share the mean of theirs.

    >>> ranks([10, 30, 20, 20])
    [1.0, 4.0, 2.5, 2.5]
    """
    order = sorted(values)
    return [(bisect_left(order, value) + 1 + bisect_right(order, value)) / 2 for value in values]


def rank_correlation(xs: Sequence[float], ys: Sequence[float]) -> float | None:
    """Spearman's ρ: the correlation of the ranks; ``None`` where one of them never changes.

    >>> rank_correlation([1, 2, 3], [10, 100, 1000])
    1.0
    """
    try:
        return correlation(ranks(xs), ranks(ys))
    except StatisticsError:
        return None


class ProxyCheck:
    """Pairs of proxy and metric over the last minute or so, compared."""

    def __init__(self) -> None:
        self._pairs: deque[tuple[float, float]] = deque(maxlen=WINDOW_SAMPLES)
        self.correlation: float | None = None
        self._ratio = 0.0

    def compare(self, proxy: float, metric: float) -> None:
        """Take in one moment's two values."""
        self._pairs.append((proxy, metric))

    def judge(self) -> None:
        """Compute the correlation; called per report, not per sample."""
        if len(self._pairs) < MIN_SAMPLES:
            return
        proxies, metrics = zip(*self._pairs, strict=True)
        self.correlation = rank_correlation(proxies, metrics)
        self._ratio = median(m / p for p, m in self._pairs if p > 0) if any(proxies) else 0.0

    @property
    def trusted(self) -> bool:
        """Whether the proxy goes with the metric."""
        return self.correlation is not None and self.correlation >= TRUSTED_CORRELATION

    def estimate(self, proxy: float) -> float | None:
        """The metric by the proxy, at their median ratio; ``None`` = it is not trusted."""
        return proxy * self._ratio if self.trusted else None


class Proxies:
    """A workload's CPU time and instructions; the latter stand for the metric where counted."""

    def __init__(self, spec: WatchSpec) -> None:
        self._spec = spec
        self._cpu = Counter()
        self._periods, self._throttled = Counter(), Counter()
        self._instructions = Counter()
        self._useful = 0.0
        self._last_counts: list[float] | None = None
        self._counters: counters.Counters | None = None
        self._counters_wanted = True
        self._check = ProxyCheck()

    @property
    def has_value(self) -> bool:
        """Whether CPU time has been read."""
        return self._cpu.rate.seen_at is not None

    def sample(self, now: float, metric: float | None) -> None:
        """Read both, and compare with the metric of this moment, where there is one."""
        used = counters.cpu_seconds(self._spec.cpu_file, self._spec.supervisor_pid)
        if used is not None:
            self._cpu.observe(now, used)
        if (counts := counters.throttled_periods(self._spec.throttle_file)) is not None:
            self._periods.observe(now, counts[0])
            self._throttled.observe(now, counts[1])
        self._count_instructions(now)
        proxy = self._proxy.rate
        if metric is not None and proxy.seen_at is not None:
            self._check.compare(proxy.newest, metric)

    def _count_instructions(self, now: float) -> None:
        if self._counters_wanted:
            self._counters_wanted = False
            with suppress(counters.NoCounters, OSError):
                events = (counters.INSTRUCTIONS, counters.BRANCHES)
                group, pid = self._spec.perf_group, self._spec.supervisor_pid
                if group or pid:  # Else it runs elsewhere.
                    self._counters = counters.open_counters(events, group, pid)
        if self._counters is None:
            return
        count = self._counters.read()
        before, self._last_counts = self._last_counts or count, count
        self._useful += counters.useful_instructions(count[0] - before[0], count[1] - before[1])
        self._instructions.observe(now, self._useful)

    @property
    def _proxy(self) -> Counter:
        return self._cpu if self._counters is None else self._instructions

    def readings(self, now: float) -> dict[Quantity, Reading]:
        """What both say now, without what is stale; computes the correlation."""
        self._check.judge()
        readings = {}
        for quantity, name, counter in (
            (Quantity.CPU, "CPU time", self._cpu),
            (Quantity.INSTRUCTIONS, "instructions", self._instructions),
        ):
            if counter.rate.is_fresh(now):
                checked = counter is self._proxy
                correlation = self._check.correlation if checked else None
                trusted = checked and self._check.trusted
                source = f"{name} (proxy)"
                readings[quantity] = Reading(counter.rate.value, source, trusted, correlation)
        if self._throttled.rate.is_fresh(now):
            periods = self._periods.rate.value
            share = min(self._throttled.rate.value / periods, 1.0) if periods > 0 else 0.0
            readings[Quantity.THROTTLED] = Reading(share, "CPU quota", trusted=False)
        return readings

    def stand_in(self, quantity: Quantity) -> Reading | None:
        """A trusted proxy's estimate of a metric that is silent."""
        if quantity not in (Quantity.RATE, Quantity.THROUGHPUT):
            return None
        estimate = self._check.estimate(self._proxy.rate.value)
        if estimate is None:
            return None
        name = "CPU time" if self._counters is None else "instructions"
        return Reading(estimate, f"{name} (proxy, trusted)", True, self._check.correlation)

    def close(self) -> None:
        """Give the counters back."""
        if self._counters is not None:
            self._counters.close()
