"""What changed between two profiles of a program, and whether that is more than chance. Pure.

Source: dissertation 5.5.3: a profile before and after each change of the code. All scores of all
sources are looked at together, so significance is corrected for their number (Holm).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wharfinger.errors import InvalidInput
from wharfinger.profiling.curves import CONFIDENCE_Z

SIGNIFICANT = 0.05
KINDS = ("tolerated", "caused")
PERFORMANCE = "performance"
_MIN_ERROR = 0.5
"""Points: two scores that were both told without an error are not sure to be alike."""


@dataclass(frozen=True, slots=True)
class Change:
    """One number, before and after.

    Attributes:
        source: Empty for the performance alone, whose ``change`` is a share; else in points.
        p_value: That chance alone makes so large a change; corrected for the number of sources.
    """

    kind: str
    source: str
    before: float
    after: float
    change: float
    low: float
    high: float
    p_value: float

    @property
    def is_significant(self) -> bool:
        """Whether chance is an unlikely explanation."""
        return self.p_value < SIGNIFICANT


def compare(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Change]:
    """All that both measured alike, performance first; profiles are as their JSON."""
    changes = []
    old, new = ({row["name"]: row for row in profile["sources"]} for profile in (before, after))
    for kind in KINDS:
        for name in (name for name in new if name in old):
            pair = old[name][kind], new[name][kind]
            alike = kind != "caused" or old[name].get("caused_by") == new[name].get("caused_by")
            alike &= kind not in (*old[name].get("estimated", ()), *new[name].get("estimated", ()))
            if None not in pair and alike:
                changes.append(_change(kind, name, *pair))
    corrected = holm([change[-1] for change in changes])
    told = [Change(*change[:-1], p) for change, p in zip(changes, corrected, strict=True)]
    return [*_performance(before["baseline"], after["baseline"]), *told]


def check_comparable(profile: Any, place: str, *, tolerance: float, cpus: Sequence[int]) -> None:
    """Raise ``InvalidInput`` unless it is a profile, measured as the new one will be."""
    keys = ("sources", "baseline", "tolerance", "cpus")
    if not isinstance(profile, Mapping) or not all(key in profile for key in keys):
        raise InvalidInput(f"{place}: no profile; give what `wharfinger profile -o json` wrote")
    for name, value in (("tolerance", tolerance), ("cpus", list(cpus))):
        if profile[name] != value:
            mend = "measure both in the same way"
            raise InvalidInput(f"{place}: {name} was {profile[name]}, and is {value} now; {mend}")


def holm(p_values: Sequence[float]) -> list[float]:
    """Corrected for their number, step by step from the smallest.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    corrected, highest = [0.0] * len(p_values), 0.0
    for rank, place in enumerate(order):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[place]))
        corrected[place] = highest
    return corrected


def _performance(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Change]:
    """By the logarithm of the ratio: errors are relative, and a change may be many times over."""
    if before["quantity"] != after["quantity"] or min(before["value"], after["value"]) <= 0:
        return []
    error = math.hypot(before["error"] / before["value"], after["error"] / after["value"])
    log_ratio = math.log(after["value"] / before["value"])
    half = CONFIDENCE_Z * error
    low, change, high = (math.expm1(log_ratio + part) for part in (-half, 0.0, half))
    p_value = _two_sided(log_ratio, error)
    told = before["value"], after["value"], change, low, high, p_value
    return [Change(PERFORMANCE, "", *told)]


_Row = tuple[str, str, float, float, float, float, float, float]


def _change(kind: str, name: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> _Row:
    change = new["value"] - old["value"]
    error = max(_MIN_ERROR, math.hypot(old["error"], new["error"]))
    half = CONFIDENCE_Z * error
    p_value = _two_sided(change, error)
    return kind, name, old["value"], new["value"], change, change - half, change + half, p_value


def _two_sided(difference: float, error: float) -> float:
    if error <= 0:
        return 1.0 if difference == 0 else 0.0
    return math.erfc(abs(difference) / error / math.sqrt(2))
