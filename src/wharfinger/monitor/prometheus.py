"""One metric from Prometheus' text format.

A histogram's percentile is taken of the requests between two scrapes, so that it is the present
one and not an average since the start.
"""

import math
import re
from collections.abc import Iterator, Mapping

_LINE = re.compile(r"^([A-Za-z_:][A-Za-z0-9_:]*)(?:\{(.*)\})?[ \t]+(\S+)(?:[ \t]+-?\d+)?[ \t]*$")
_LABEL = re.compile(r'([A-Za-z_][A-Za-z0-9_]*)="((?:[^"\\]|\\.)*)"')

Buckets = Mapping[float, float]
"""Upper bound to how many are at most that, ``inf`` included."""


def series(text: str, metric: str) -> Iterator[tuple[dict[str, str], float]]:
    """Labels and value of each series of a metric, as ``name`` or ``name{label="value"}``."""
    name, _, stated = metric.partition("{")
    wanted = dict(_LABEL.findall(stated))
    for line in text.splitlines():
        match = _LINE.match(line) if line.startswith(name) else None
        if match is not None and match[1] == name:
            labels = dict(_LABEL.findall(match[2] or ""))
            if wanted.items() <= labels.items():
                yield labels, float(match[3])


def total(text: str, metric: str) -> float:
    r"""The sum of all series of a metric.

    >>> total('a_total{code="200"} 3\na_total{code="500"} 1\n', "a_total")
    4.0
    """
    values = [value for _, value in series(text, metric)]
    if not values:
        raise ValueError(f"the answer has no metric {metric}")
    value = sum(values)
    if not math.isfinite(value):
        raise ValueError(f"{metric} is {value}")
    return value


def buckets(text: str, metric: str) -> dict[float, float]:
    """A histogram's buckets, all its series added up."""
    name, brace, labels = metric.partition("{")
    totals: dict[float, float] = {}
    for of, value in series(text, f"{name}_bucket{brace}{labels}"):
        bound = float(of.get("le", "nan"))
        if not math.isnan(bound):
            totals[bound] = totals.get(bound, 0.0) + value
    if math.inf not in totals:
        raise ValueError(f"the answer has no histogram {metric}")
    return dict(sorted(totals.items()))


def between(before: Buckets, now: Buckets) -> dict[float, float]:
    """The requests between two scrapes; all of ``now`` where the counter was reset."""
    if before.keys() != now.keys() or any(now[bound] < before[bound] for bound in now):
        return dict(now)
    return {bound: now[bound] - before[bound] for bound in now}


def percentile(histogram: Buckets, percent: float) -> float | None:
    """The percentile, linear within its bucket; ``None`` without requests.

    Beyond the last finite bound it is given as that bound, a minimum.

    >>> percentile({0.1: 50.0, 0.2: 100.0, math.inf: 100.0}, 75)
    0.15000000000000002
    """
    wanted = histogram[math.inf] * percent / 100
    if wanted <= 0:
        return None
    low, below = 0.0, 0.0
    for bound, upto in histogram.items():
        if upto >= wanted:
            if math.isinf(bound):
                return low if low > 0 else None
            return low + (bound - low) * (wanted - below) / (upto - below)
        low, below = bound, upto
    return None
