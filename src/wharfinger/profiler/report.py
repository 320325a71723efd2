"""A profile as a document (JSON), a row for ``classify`` (CSV), and sentences. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from wharfinger.model.interference import SharedResource
from wharfinger.model.profile import Entry
from wharfinger.profiler.choosing import FEATURES
from wharfinger.profiler.comparison import KINDS
from wharfinger.profiling.crossing import CurveScore
from wharfinger.profiling.curves import CONFIDENCE, CONFIDENCE_Z, MeasuredCurve, Verdict
from wharfinger.profiling.probing import ProbeCalibration, ProbeReading
from wharfinger.profiling.rounds import (
    AlonePerformance,
    BeyondCpu,
    Calibrations,
    CausedBy,
    InterferenceProfile,
)

Document = dict[str, Any]
LEAST = 0.1
"""In place of a score of 0 in a row for ``classify``, which takes logarithms."""
BUSY_CPUS = 0.8
"""A program that uses less of one CPU, and keeps its performance, is not bound by its work."""
STRONG = 50.0
"""Points of pressure, of 100, from which a program contends for a resource."""


def document_of(
    profile: InterferenceProfile,
    about: Mapping[str, Any],
    from_siblings: InterferenceProfile | None = None,
    *,
    shares_cpu: bool = True,
) -> Document:
    """The profile's JSON; ``about`` says what was profiled.

    ``from_siblings``: The same, by sources on the other hardware threads of its cores.
    ``shares_cpu``: Every source takes time of the program's own CPUs.
    """
    rows = [_source_row(profile, source.resource) for source in profile.sources]
    for row in rows:
        resource = SharedResource(row["name"])
        if from_siblings is not None and resource in from_siblings.found:
            told = _source_row(from_siblings, resource)
            row["sibling"] = {key: told[key] for key in _OF_SIBLINGS}
            if told["caused_by"] != CausedBy.PROBE.value:  # The share is that of its own CPUs.
                row["sibling"] |= {"caused": None, "caused_by": None}
    document = {
        **about,
        "tolerance": profile.tolerance,
        "confidence": CONFIDENCE,
        "measured_by": profile.way.value,
        "baseline": _baseline(profile.baseline),
        "used_cpus": profile.used_cpus,
        "sources": rows,
        "rounds": profile.rounds,
        "runs": profile.runs,
        "seconds": profile.seconds,
    }
    return {**document, "sentences": sentences(document, shares_cpu=shares_cpu)}


_OF_SIBLINGS = ("verdict", "reason", "tolerated", "caused", "caused_by", "caused_reason", "curve")


def _baseline(baseline: AlonePerformance) -> Document:
    low, high = _interval(baseline.value, baseline.error, 0.0, float("inf"))
    return {
        "quantity": baseline.quantity.value,
        "value": baseline.value,
        "error": baseline.error,
        "low": low,
        "high": high,
        "noise": baseline.noise,
        "drift": baseline.drift,
        "readings": baseline.readings,
    }


def _source_row(profile: InterferenceProfile, resource: SharedResource) -> Document:
    name = resource.value
    found = profile.found.get(resource)
    reason = profile.silent.get(f"tolerated/{name}") or "time was over"
    verdict = Verdict.NO_SIGNAL if found is None else found.verdict
    return {
        "name": name,
        "verdict": verdict.value,
        "reason": (reason if found is None else found.reason) or None,
        "tolerated": None if found is None else _score(found.tolerated),
        **_caused(profile, resource),
        "beyond_cpu": _beyond_cpu(profile, resource),
        "sibling": None,
        "estimated": [],
        "rounds": 0 if found is None else found.rounds,
        "curve": [] if found is None else _curve(found.curve),
        "calibration": _calibration(profile.calibrations.get(resource)),
    }


def _caused(profile: InterferenceProfile, resource: SharedResource) -> Document:
    """By the probe, where that tells anything; else by its own share, which is a check of it."""
    probed, share = profile.caused.get(resource), profile.shares.get(resource)
    by_share = _SHARES.get(resource)
    published = profile.caused_as_published
    check = None
    if share is not None and by_share is not None and probed is not None:
        error = max(1.0, (share.error**2 + probed.error**2) ** 0.5)
        far = abs(probed.value - share.value) > CONFIDENCE_Z * error
        within = probed.at_least and share.value >= probed.value
        check = {"by": by_share.value, "score": _score(share), "disagrees": far and not within}
    score = _score(probed)
    by = CausedBy.PUBLISHED if published else CausedBy.PROBE
    if score is None and share is not None and by_share is not None and not published:
        score, by = _score(share), by_share
    return {
        "caused": score,
        "caused_by": None if score is None else by.value,
        "caused_reason": None if probed else profile.silent.get(f"caused/{resource.value}"),
        "cross_check": check,
    }


_SHARES = {
    SharedResource.INTEGER: CausedBy.CPU_SHARE,
    SharedResource.STORAGE_BANDWIDTH: CausedBy.IO_SHARE,
}


def _beyond_cpu(profile: InterferenceProfile, resource: SharedResource) -> Document | None:
    """What is lost per second of CPU time, over what ``integer`` costs, which takes only time."""
    beyond = profile.beyond_cpu.get(resource)
    if beyond is None:
        return None
    caused = beyond.caused
    told: Document = {
        "tolerated": None,
        "caused": None if isinstance(caused, str) else _score(caused),
        "caused_reason": caused if isinstance(caused, str) else None,
        "loss": None,
    }
    curve = None if beyond.tolerated is None else beyond.tolerated.curve
    if beyond.tolerated is None or curve is None or not curve.points:
        return told
    last = curve.points[-1]
    ratio, error = last.relative_performance, curve.total_error(last)
    of_integer = profile.beyond_cpu.get(SharedResource.INTEGER)
    if resource is not SharedResource.INTEGER:
        beside, doubt = _nearest(of_integer, last.intensity)
        ratio, error = ratio / beside, (error**2 + (ratio / beside * doubt) ** 2) ** 0.5 / beside
    half = CONFIDENCE_Z * error
    told["tolerated"] = _score(beyond.tolerated.tolerated)
    told["loss"] = {
        "value": 1 - ratio, "low": 1 - ratio - half, "high": 1 - ratio + half,
        "intensity": last.intensity,
    }  # fmt: skip
    return told


def _nearest(beyond: BeyondCpu | None, intensity: float) -> tuple[float, float]:
    """Performance per CPU time beside ``integer`` at about that intensity, and its error."""
    curve = beyond.tolerated.curve if beyond is not None and beyond.tolerated is not None else None
    if curve is None or not curve.points:
        return 1.0, 0.0
    point = min(curve.points, key=lambda each: abs(each.intensity - intensity))
    if point.relative_performance <= 0:
        return 1.0, 0.0
    return point.relative_performance, curve.total_error(point)


def _score(score: CurveScore | Entry | None) -> Document | None:
    if score is None:
        return None
    at_least = score.at_least if isinstance(score, CurveScore) else score.censored
    if isinstance(score, CurveScore):
        low, high = score.interval(CONFIDENCE)
    else:
        low, high = _interval(score.value, score.error, 0.0, 100.0)
    return {
        "value": score.value,
        "low": low,
        "high": 100.0 if at_least else high,
        "error": score.error,
        "at_least": at_least,
    }


def _interval(value: float, error: float, low: float, high: float) -> tuple[float, float]:
    half = CONFIDENCE_Z * error
    return max(low, value - half), min(high, value + half)


def _curve(curve: MeasuredCurve) -> list[Document]:
    rows = []
    for point, fitted in zip(curve.points, curve.fitted, strict=True):
        error = curve.total_error(point)
        low, high = _interval(point.relative_performance, error, 0.0, float("inf"))
        rows.append(
            {
                "intensity": point.intensity,
                "performance": point.relative_performance,
                "low": low,
                "high": high,
                "fitted": fitted,
                "readings": point.samples,
            }
        )
    return rows


def _calibration(calibration: ProbeCalibration | None) -> list[list[float | None]]:
    """Rows of intensity, work per second, and per second of CPU time."""
    if calibration is None:
        return []
    told = calibration.readings
    return [[at, each.per_second, each.per_cpu_second] for at, each in told]


def calibrations_of(document: Mapping[str, Any]) -> Calibrations:
    """Those that a profile was made with; raises ``KeyError``, ``TypeError``, ``ValueError``."""
    return {
        SharedResource(row["name"]): ProbeCalibration(
            tuple((float(at), ProbeReading(rate, share)) for at, rate, share in row["calibration"])
        )
        for row in document["sources"]
        if row["calibration"]
    }


def csv_of(document: Mapping[str, Any]) -> str:
    """A header and a row, as ``wharfinger classify predict --rows`` reads them."""
    names, values = ["name"], [document["name"].replace(",", " ").replace('"', "")]
    for kind in KINDS:
        for row in document["sources"]:
            names.append(f"{kind}/{row['name']}")
            score = row[kind]
            values.append("" if score is None else f"{max(LEAST, score['value']):.4g}")
    return f"{','.join(names)}\n{','.join(values)}\n"


def sentences(document: Mapping[str, Any], *, shares_cpu: bool = True) -> list[str]:
    """What it contends for, what it leaves alone, and on which feature to spend (5.5.2)."""
    slowed = [row for row in document["sources"] if row["verdict"] == Verdict.SLOWED.value]
    kept = [row["name"] for row in document["sources"] if row["verdict"] == Verdict.KEPT.value]
    drop = f"{document['tolerance']:.0%}"
    said = []
    for row in sorted(slowed, key=lambda row: row["tolerated"]["value"]):
        score = row["tolerated"]
        where = f"{score['value']:.0f} ({score['low']:.0f} to {score['high']:.0f})"
        said.append(f"It loses {drop} of its performance at {row['name']} {where} of 100.")
    for row in document["sources"]:
        score = row["caused"]
        if score is not None and score["low"] >= STRONG:
            said.append(f"It takes much of {row['name']} from others: it causes {_told(score)}.")
    said += [
        _doubt(row) for row in document["sources"] if (row["cross_check"] or {}).get("disagrees")
    ]
    if kept:
        said.append(f"It keeps its performance beside all of: {', '.join(kept)}.")
    used = document["used_cpus"]
    if kept and used is not None and used < BUSY_CPUS:
        said.append(
            f"It uses {used:.0%} of one CPU: it waits, or limits its rate by itself. Then its "
            "latency, or its rate without that limit, tells more."
        )
    return [*said, _advice(slowed, shares_cpu=shares_cpu)]


def _doubt(row: Mapping[str, Any]) -> str:
    check = row["cross_check"]
    by = {
        CausedBy.CPU_SHARE.value: "share of the CPUs",
        CausedBy.IO_SHARE.value: "share of the I/O",
    }
    return (
        f"On {row['name']} two ways disagree: by the probe it causes {_told(row['caused'])}, "
        f"by its {by[check['by']]} {_told(check['score'])}."
    )


def _told(score: Mapping[str, Any]) -> str:
    return f"{score['value']:.0f} ({score['low']:.0f} to {score['high']:.0f})"


def _advice(slowed: Sequence[Mapping[str, Any]], *, shares_cpu: bool) -> str:
    if not slowed:
        none = "No source that was injected is sure to slow it"
        return f"{none}: nothing here says on which feature of a machine to spend."
    most, alike = minded_most(slowed, shares_cpu=shares_cpu)
    feature = FEATURES[most["name"]]
    others = [row["name"] for row in alike]
    also = f" ({', '.join(others)} can't be told apart from it)" if others else ""
    return f"Spend on {feature}: {most['name']} is what it minds most{also}."


def minded_most(
    slowed: Sequence[Mapping[str, Any]], *, shares_cpu: bool
) -> tuple[Mapping[str, Any], list[Mapping[str, Any]]]:
    """Of at least one row with a verdict of slowed: on which to spend, and those alike to it."""
    lowest = min(slowed, key=lambda row: row["tolerated"]["high"])
    bound = lowest["tolerated"]["high"]
    alike = [row for row in slowed if row["tolerated"]["low"] <= bound]
    # On a shared CPU every source takes time of it: where that alone explains the drop, it does.
    integer = [row for row in alike if row["name"] == SharedResource.INTEGER.value]
    most = integer[0] if integer and shares_cpu else lowest
    return most, [row for row in alike if row is not most]
