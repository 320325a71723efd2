"""The quota of CPU time: what a program may use in each period before it is stopped until the next.

Source: the Linux kernel's CFS bandwidth control (Turner, Rao, Rao, OLS 2010). ``host`` sets it,
``classification`` predicts what it does to latencies.
"""

from wharfinger.model.platform import MILLICPUS_PER_CPU

QUOTA_PERIOD_SECONDS = 0.1
"""The kernel's default."""
SHORT_PERIOD_SECONDS = 0.01
"""Of latency-critical work: with less, no stop becomes shorter (decision 0044)."""
TICK_SECONDS = 0.004
"""The kernel looks at what runs once in a tick: a smaller quota is outrun, and the debt waited for
in later periods."""


def short_period_seconds(cpu_millicpus: int) -> float:
    """The period of latency-critical work: short, but with a quota that lasts for a tick.

    >>> [short_period_seconds(cpu) for cpu in (10, 100, 200, 2000)]
    [0.1, 0.04, 0.02, 0.01]
    """
    least = TICK_SECONDS * MILLICPUS_PER_CPU / max(cpu_millicpus, 1)
    return min(max(SHORT_PERIOD_SECONDS, least), QUOTA_PERIOD_SECONDS)
