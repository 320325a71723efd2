"""How targets are written for people, with what was predicted and measured of them.

A record here is the API's: of a workload, a target, or a measured value.
"""

from collections.abc import Mapping
from typing import Any

from wharfinger.cli import format as fmt
from wharfinger.cli.output import Record

TERMS = ("throughput_per_second", "rate_per_second", "latency_seconds", "completion_seconds")
"""What a target may state, in the order in which it is written."""
THROTTLED = "throttled_share"
"""What is measured beside the target's terms, and stands for none of them."""
SOURCES_WIDTH = 48
"""Of ``measured_by``, at most; ``measured`` has all of it."""


def target(value: Record | None) -> str:
    """A target in the manifest's units."""
    bound = value["latency"] if value else None
    if not bound:
        return _performance(value, "")
    below = fmt.latency(bound["below_seconds"])
    return _performance(value, f"p{fmt.number(bound['percentile'])}<{below}")


def achieved(value: Record | None) -> str:
    """All that was measured, in the form of a target."""
    seconds = value["latency_seconds"] if value else None
    return _performance(value, "" if seconds is None else term("latency_seconds", seconds))


def _performance(value: Record | None, latency: str) -> str:
    if value is None:
        return fmt.NONE
    parts = [f"{fmt.number(value[key])}/s" for key in TERMS[:2] if value[key] is not None]
    parts += [latency] if latency else []
    if value["completion_seconds"] is not None:
        parts.append(f"done in {fmt.duration(value['completion_seconds'])}")
    return " ".join(parts)


def stated(value: Record | None) -> list[str]:
    """Which of ``TERMS`` a target states."""
    return [t for t in TERMS if value and value["latency" if t == TERMS[2] else t]]


def achieved_of_target(workload: Record) -> str:
    """Of what is achieved only what the target states."""
    values = workload["achieved"] or {}
    terms = [t for t in stated(workload["target"]) if values.get(t) is not None]
    return " ".join(term(t, values[t]) for t in terms) or fmt.NONE


def term(name: str, value: float) -> str:
    """A number of ``TERMS``, of CPU time or of throttling, in its unit.

    >>> term("rate_per_second", 126.3), term("latency_seconds", 0.00236)
    ('126/s', '2.36ms')
    >>> term("throttled_share", 0.12)
    'throttled in 12% of its periods'
    """
    if name == "throttled_share":
        return f"throttled in {fmt.percent(value)} of its periods"
    if name == "cpu_seconds_per_second":
        return f"{fmt.significant(value)} CPUs used"
    if name.endswith("_per_second"):
        return f"{fmt.significant(value)}/s"
    if name == "latency_seconds":
        return fmt.latency(float(f"{value:.3g}"))
    return fmt.duration(value)


def intervals(performance: Mapping[str, Any], target: Record | None) -> str:
    """Predicted numbers with their bounds, in the target's terms.

    >>> target = dict.fromkeys(["latency", *TERMS]) | {"rate_per_second": 100.0}
    >>> intervals({"rate_per_second": {"mean": 126.3, "low": 121.0, "high": 132.0}}, target)
    '126/s (121/s to 132/s)'
    """
    written = []
    for name in stated(target):
        if performance[name]:
            bounds = (performance[name][key] for key in ("mean", "low", "high"))
            mean, low, high = (term(name, value) for value in bounds)
            written.append(f"{mean} ({low} to {high})")
    return ", ".join(written)


def predicted(workload: Record) -> str:
    """What is predicted, in the target's terms and as a share of it."""
    prediction = workload["predicted"]
    if prediction is None:
        return "nothing"
    terms = intervals(prediction["performance"], workload["target"])
    mean, low, sure = (fmt.percent(prediction[key]) for key in ("mean", "low", "confidence"))
    share = f"{mean} of the target, at least {low} with {sure} confidence"
    return f"{terms}: {share}" if terms else share


def against_prediction(workload: Record) -> str:
    """The prediction's error; empty where it could not be checked."""
    lines = []
    for error in workload["prediction_errors"]:
        share = error["achieved"] / error["predicted"] - 1
        how = "as predicted" if abs(share) < 0.005 else f"{share:+.0%}"
        inside = "within" if error["within"] else "OUTSIDE"
        before, after = (term(error["name"], error[key]) for key in ("predicted", "achieved"))
        lines.append(f"{before} predicted, {after} achieved ({how}, {inside} the interval)")
    return "; ".join(lines)


def forecast(workload: Record) -> str:
    """What load will be offered, with the error of such forecasts; empty = unknown.

    >>> told = {"mean_per_second": 140, "low_per_second": 110, "high_per_second": 180}
    >>> told |= {"horizon_seconds": 30, "season_seconds": 60, "error_log": 0.08}
    >>> forecast({"forecast": told})
    '140/s in 30 s (110 to 180), season 1m, error 8%'
    """
    told = workload["forecast"]
    if told is None:
        return ""
    mean, low, high = (f"{told[f'{key}_per_second']:.3g}" for key in ("mean", "low", "high"))
    text = f"{mean}/s in {told['horizon_seconds']:.0f} s ({low} to {high})"
    if told["season_seconds"] is not None:
        text += f", season {fmt.duration(told['season_seconds'])}"
    return f"{text}, error {fmt.percent(told['error_log'])}"


def measured(values: list[Record]) -> str:
    """Each number and its source; a proxy with its worth."""
    lines = []
    for one in values:
        when = " at the end" if one["final"] else ""
        if one["value"] is None:
            lines.append(f"{one['name']} no signal{when}: {one['source']}")
        else:
            lines.append(f"{one['name']} {one['value']:.4g}{when} by {_source(one)}")
    return "; ".join(lines) or fmt.NONE


def throttled_share(workload: Record) -> float | None:
    """Of the periods of its CPU quota, those in which that did not last; ``None`` = unknown."""
    found = (one["value"] for one in workload["measured"] if one["name"] == THROTTLED)
    return next(found, None)


def _source(one: Record) -> str:
    kind = f"(proxy, {'' if one['trusted'] else 'un'}trusted)"
    return str(one["source"]).replace("(proxy)", kind)


def measured_by(values: list[Record]) -> str:
    """Where the numbers come from, or why there are none: short, for a column of a table.

    >>> cpu = {"value": 1.0, "source": "CPU time (proxy)", "trusted": False}
    >>> measured_by([{"value": 4.0, "source": "progress lines"}, cpu]), measured_by([cpu])
    ('progress lines', 'CPU time (proxy, untrusted)')
    """
    values = [one for one in values if one.get("name") != THROTTLED]
    silent = [f"no signal: {one['source']}" for one in values if one["value"] is None]
    proxies = [_source(one) for one in values if "(proxy)" in one["source"]]
    own = [one["source"] for one in values if "(proxy)" not in one["source"]]
    sources = "; ".join(dict.fromkeys(silent or own or proxies)) or fmt.NONE
    return sources if len(sources) <= SOURCES_WIDTH else f"{sources[: SOURCES_WIDTH - 3]}..."
