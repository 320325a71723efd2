"""Numbers as the demo's tables and its live view write them."""

from collections.abc import Mapping, Sequence
from typing import Any

from wharfinger.demo.plan import LATENCY_PERCENTILE, Goal, Kind
from wharfinger.demo.verdict import Outcome

NONE = "-"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as their widest cell.

    >>> print(table(["A", "B"], [["long", "1"], ["x", "2"]]))
    A     B
    long  1
    x     2
    """
    lines = [list(head), *map(list, rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def rate(per_second: float) -> str:
    """Three digits.

    >>> rate(417.3), rate(2.04)
    ('417/s', '2.04/s')
    """
    return f"{per_second:.0f}/s" if per_second >= 100 else f"{per_second:.3g}/s"


def latency(seconds: float) -> str:
    """In milliseconds below a second.

    >>> latency(0.0123), latency(0.00321), latency(2.5)
    ('12 ms', '3.2 ms', '2.5 s')
    """
    if seconds >= 1:
        return f"{seconds:.1f} s"
    return f"{1000 * seconds:.{0 if seconds >= 0.01 else 1}f} ms"


def percent(share: float | None) -> str:
    """Without digits after the point; never 100 where something is missing.

    >>> percent(0.934), percent(0.998), percent(None)
    ('93%', '99%', '-')
    """
    if share is None:
        return NONE
    return f"{int(share * 100)}%" if 0.99 < share < 1 else f"{share:.0%}"


def target(goal: Goal) -> str:
    """What has to be reached.

    >>> target(Goal(0.3, throughput_per_second=200.0, latency_seconds=0.1))
    '200/s, p95 < 100 ms'
    """
    if goal.completion_seconds is not None:
        return f"done in {goal.completion_seconds:.0f} s"
    parts = [rate(goal.throughput_per_second)] if goal.throughput_per_second is not None else []
    if goal.latency_seconds is not None:
        bound = f"{1000 * goal.latency_seconds:.0f} ms"
        parts.append(f"p{LATENCY_PERCENTILE:g} < {bound}")
    return ", ".join(parts)


def achieved(outcome: Outcome) -> str:
    """What came of it, in the target's terms."""
    if outcome.member.kind is Kind.BATCH:
        if outcome.completion_seconds is not None:
            return f"done in {outcome.completion_seconds:.0f} s"
        return "not done" if outcome.waited_seconds is not None else "never started"
    if outcome.throughput_per_second is None:
        return "never served"
    parts = [rate(outcome.throughput_per_second)]
    if outcome.goal.latency_seconds is not None and outcome.latency_seconds is not None:
        parts.append(f"p{LATENCY_PERCENTILE:g} {latency(outcome.latency_seconds)}")
    return f"{', '.join(parts)}; held {percent(outcome.held_share)}"


def live(found: Mapping[str, Any] | None) -> str:
    """What ``get workloads`` says is achieved now."""
    if not found:
        return NONE
    parts = [
        rate(found[key])
        for key in ("throughput_per_second", "rate_per_second")
        if found.get(key) is not None
    ]
    if found.get("latency_seconds") is not None:
        parts.append(latency(found["latency_seconds"]))
    if found.get("completion_seconds") is not None:
        parts.append(f"done in {found['completion_seconds']:.0f} s")
    return ", ".join(parts) or NONE


def predicted(prediction: Mapping[str, float] | None) -> str:
    """Performance over target, with its interval.

    >>> predicted(dict(mean=1.12, low=0.98, high=1.27, confidence=0.8))
    '1.12 (0.98-1.27)'
    """
    if prediction is None:
        return NONE
    return f"{prediction['mean']:.2f} ({prediction['low']:.2f}-{prediction['high']:.2f})"


def verdict(met: bool | None) -> str:
    """Whether a target is met."""
    return NONE if met is None else "yes" if met else "NO"
