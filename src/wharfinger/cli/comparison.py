"""Policies beside one another as tables: of ``simulate --compare`` and of experiments.

Works on what is printed as JSON (``experiments.comparison.as_json``), so that it needs no NumPy.
"""

from collections.abc import Sequence
from typing import Any

from wharfinger.cli import format as fmt
from wharfinger.cli.format import Column, table

Policy = dict[str, Any]

SHOWN = {
    "qos_kept_fraction": "KEPT",
    "target_performance_mean": "OF TARGET",
    "performance_mean": "PERFORMANCE",
    "platform_loss_mean": "PLATFORM LOSS",
    "interference_loss_mean": "INTERFERENCE",
    "waiting_loss_mean": "WAITING",
    "utilization_cpu_mean": "CPU USED",
}
"""Of the report, all of them shares: what the narrow table has, and as what."""


def as_text(policies: Sequence[Policy], output: str) -> str:
    """Means over seeds, then differences from the first policy; ``wide`` has all metrics."""
    seeds = policies[0]["seeds"]
    if output == "wide":
        return f"{table(_lines(policies), _WIDE)}\n{_over(seeds)}; * 0 lies outside of it"
    parts = [f"{table(policies, _columns(policies, _mean))}\nin percent, {_over(seeds)}"]
    first, *others = policies
    if others:
        parts.append(
            f"against {first['name']} on the same draws, in points, * 0 lies outside\n"
            + table(others, _columns(policies, _difference))
        )
    return "\n\n".join(parts)


def _over(seeds: Sequence[int]) -> str:
    if len(seeds) == 1:
        return f"seed {seeds[0]}, which alone tells no interval"
    return f"mean and 95% interval over seeds {seeds[0]} to {seeds[-1]}"


def _columns(policies: Sequence[Policy], cell: Any) -> list[Column]:
    keys = [key for key in SHOWN if any(key in policy["metrics"] for policy in policies)]
    return [
        ("POLICY", lambda policy: policy["name"]),
        *((SHOWN[key], lambda policy, key=key: cell(policy, key)) for key in keys),
    ]


def _mean(policy: Policy, key: str) -> str:
    return _percent(policy["metrics"].get(key), ".1f")


def _difference(policy: Policy, key: str) -> str:
    found = (policy["difference"] or {}).get(key)
    return _percent(found, "+.1f") + ("*" if found and found["differs"] else "")


def _percent(found: dict[str, Any] | None, form: str) -> str:
    if found is None or found["mean"] is None:
        return fmt.NONE
    mean = f"{round(100 * found['mean'], 1) or 0.0:{form}}"  # No minus before nothing.
    return mean if found["low"] is None else f"{mean} ±{100 * (found['high'] - found['mean']):.1f}"


# --- wide -------------------------------------------------------------------------------------


def _lines(policies: Sequence[Policy]) -> list[dict[str, Any]]:
    """One for each metric and policy, a metric's together."""
    keys = dict.fromkeys(key for policy in policies for key in policy["metrics"])
    nothing = {"mean": None, "low": None, "high": None, "differs": None}
    return [
        {
            "metric": key,
            "policy": policy["name"],
            "found": policy["metrics"].get(key, nothing),
            "difference": (policy["difference"] or {}).get(key, nothing),
        }
        for key in keys
        for policy in policies
    ]


def _number(part: str, bound: str) -> Any:
    def cell(line: dict[str, Any]) -> str:
        value = line[part][bound]
        return fmt.NONE if value is None else f"{value:.6g}"

    return cell


_WIDE: list[Column] = [
    ("METRIC", lambda line: line["metric"]),
    ("POLICY", lambda line: line["policy"]),
    ("MEAN", _number("found", "mean")),
    ("LOW", _number("found", "low")),
    ("HIGH", _number("found", "high")),
    ("DIFFERENCE", _number("difference", "mean")),
    ("LOW", _number("difference", "low")),
    ("HIGH", _number("difference", "high")),
    ("", lambda line: "*" if line["difference"]["differs"] else ""),
]
