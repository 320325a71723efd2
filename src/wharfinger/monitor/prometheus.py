"""Prometheus' text format, as far as reading one metric needs it.

A histogram's percentile is taken of what came in between two scrapes, so that it says how the
service is now and not how it was since it started.
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
    name, wanted = split_metric(metric)
    for line in text.splitlines():
        if not line.startswith(name):
            continue
        match = _LINE.match(line)
        if match is None or match[1] != name:
            continue
        labels = dict(_LABEL.findall(match[2] or ""))
        if wanted.items() <= labels.items():
            yield labels, float(match[3])


def split_metric(metric: str) -> tuple[str, dict[str, str]]:
    """A metric's name and the labels that are asked for."""
    name, _, labels = metric.partition("{")
    return name, dict(_LABEL.findall(labels))


def total(text: str, metric: str) -> float:
    r"""The sum of all series of a metric.

    Raises:
        ValueError: There is none, or it is not finite.

    >>> total('a_total{code="200"} 3\na_total{code="500"} 1\n', "a_total")
    4.0
    """
    values = [value for _, value in series(text, metric)]
    if not values:
        raise ValueError(f"the answer has no metric {metric}")
    found = sum(values)
    if not math.isfinite(found):
        raise ValueError(f"{metric} is {found}")
    return found


def buckets(text: str, metric: str) -> dict[float, float]:
    """A histogram's buckets, all its series added up.

    Raises:
        ValueError: There is none.
    """
    name, brace, labels = metric.partition("{")
    found: dict[float, float] = {}
    for of, value in series(text, f"{name}_bucket{brace}{labels}"):
        bound = float(of.get("le", "nan"))
        if not math.isnan(bound):
            found[bound] = found.get(bound, 0.0) + value
    if math.inf not in found:
        raise ValueError(f"the answer has no histogram {metric}")
    return dict(sorted(found.items()))


def between(before: Buckets, now: Buckets) -> dict[float, float]:
    """What came in between two scrapes; all of ``now`` where the counter was reset."""
    if before.keys() != now.keys() or any(now[bound] < before[bound] for bound in now):
        return dict(now)
    return {bound: now[bound] - before[bound] for bound in now}


def percentile(found: Buckets, percent: float) -> float | None:
    """The percentile, linear within its bucket; ``None`` where nothing came in.

    One beyond the last finite bound is given as that bound: at least so much.

    >>> percentile({0.1: 50.0, 0.2: 100.0, math.inf: 100.0}, 75)
    0.15000000000000002
    """
    wanted = found[math.inf] * percent / 100
    if wanted <= 0:
        return None
    low, below = 0.0, 0.0
    for bound, upto in found.items():
        if upto >= wanted:
            if math.isinf(bound):
                return low if low > 0 else None
            return low + (bound - low) * (wanted - below) / (upto - below)
        low, below = bound, upto
    return None
