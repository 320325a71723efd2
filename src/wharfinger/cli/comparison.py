"""Tables that compare policies: of ``simulate --compare`` and of experiments.

Works on what is printed as JSON (``experiments.comparison.as_json``), so that it needs no NumPy.
"""

from collections.abc import Callable, Sequence

from wharfinger.cli import format as fmt
from wharfinger.cli.output import Column, Record, column, table

SHOWN = {
    "qos_kept_fraction": "KEPT",
    "target_performance_mean": "OF TARGET",
    "performance_mean": "PERFORMANCE",
    "platform_loss_mean": "PLATFORM LOSS",
    "interference_loss_mean": "INTERFERENCE",
    "waiting_loss_mean": "WAITING",
    "utilization_cpu_mean": "CPU USED",
}
"""Metrics of the narrow table, all of them shares, and their headers."""


def as_text(policies: Sequence[Record], output: str) -> str:
    """Means over seeds, then differences from the first policy; ``wide`` has all metrics."""
    seeds = policies[0]["seeds"]
    if output == "wide":
        return f"{table(_lines(policies), _WIDE)}\n{_over(seeds)}; * 0 lies outside of it"
    parts = [f"{table(policies, _columns(policies, _mean))}\nin percent, {_over(seeds)}"]
    first, *others = policies
    parts += [note for policy in policies if (note := _taken(policy))]
    if others:
        parts.append(
            f"against {first['name']} on the same draws, in points, * 0 lies outside\n"
            + table(others, _columns(policies, _difference))
        )
    return "\n\n".join(parts)


def _taken(policy: Record) -> str:
    by = ", ".join(f"{name} in {count}" for name, count in policy.get("taken_from", {}).items())
    runs = len(policy["seeds"])
    return f"{policy['name']} takes a better schedule of {by} of {runs} runs" if by else ""


def _over(seeds: Sequence[int]) -> str:
    if len(seeds) == 1:
        return f"seed {seeds[0]}, which alone tells no interval"
    return f"mean and 95% interval over seeds {seeds[0]} to {seeds[-1]}"


def _columns(policies: Sequence[Record], cell: Callable[[Record, str], str]) -> list[Column]:
    keys = [key for key in SHOWN if any(key in policy["metrics"] for policy in policies)]
    cells = [(SHOWN[key], lambda policy, key=key: cell(policy, key)) for key in keys]
    return [column("POLICY", "name"), *cells]


def _mean(policy: Record, key: str) -> str:
    return _percent(policy["metrics"].get(key), ".1f")


def _difference(policy: Record, key: str) -> str:
    value = (policy["difference"] or {}).get(key)
    return _percent(value, "+.1f") + ("*" if value and value["differs"] else "")


def _percent(value: Record | None, form: str) -> str:
    if value is None or value["mean"] is None:
        return fmt.NONE
    mean = f"{round(100 * value['mean'], 1) or 0.0:{form}}"  # No minus before nothing.
    return mean if value["low"] is None else f"{mean} ±{100 * (value['high'] - value['mean']):.1f}"


def _lines(policies: Sequence[Record]) -> list[Record]:
    keys = dict.fromkeys(key for policy in policies for key in policy["metrics"])
    unknown = dict.fromkeys(("mean", "low", "high", "differs"))
    lines = []
    for key, policy in ((key, policy) for key in keys for policy in policies):
        value = policy["metrics"].get(key, unknown)
        difference = (policy["difference"] or {}).get(key, unknown)
        differences = {f"difference_{bound}": number for bound, number in difference.items()}
        lines.append({"metric": key, "policy": policy["name"], **value, **differences})
    return lines


_NUMBER = "{:.6g}".format
_WIDE: list[Column] = [
    *map(column, ("METRIC", "POLICY")),
    *(column(bound.upper(), form=_NUMBER) for bound in ("mean", "low", "high")),
    column("DIFFERENCE", "difference_mean", _NUMBER),
    *(column(bound.upper(), f"difference_{bound}", _NUMBER) for bound in ("low", "high")),
    ("", lambda line: "*" if line["difference_differs"] else ""),
]
