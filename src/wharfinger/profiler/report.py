"""A profile as a document (JSON), a row for ``classify`` (CSV), and sentences. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from wharfinger.model.interference import SharedResource
from wharfinger.model.profile import Entry
from wharfinger.profiler.choosing import FEATURES
from wharfinger.profiler.curves import Sensitivity, Verdict, interval
from wharfinger.profiler.rounds import AlonePerformance, InterferenceProfile

Document = dict[str, Any]
CONFIDENCE = 0.95
LEAST = 0.1
"""In place of a score of 0 in a row for ``classify``, which takes logarithms."""
STRONG = 50.0
"""Points of pressure, of 100, from which a program contends for a resource."""


def document_of(
    profile: InterferenceProfile, about: Mapping[str, Any], *, shares_cpu: bool = True
) -> Document:
    """The profile's JSON; ``about`` says what was profiled.

    ``shares_cpu``: every source takes time of the program's own CPUs.
    """
    rows = [_source_row(profile, source.resource.value) for source in profile.sources]
    document = {
        **about,
        "tolerance": profile.tolerance,
        "confidence": CONFIDENCE,
        "measured_by": profile.way.value,
        "baseline": _baseline(profile.baseline),
        "sources": rows,
        "rounds": profile.rounds,
        "runs": profile.runs,
        "seconds": profile.seconds,
    }
    return {**document, "sentences": sentences(document, shares_cpu=shares_cpu)}


def _baseline(baseline: AlonePerformance) -> Document:
    low, high = interval(baseline.value, baseline.error, 0.0, float("inf"))
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


def _source_row(profile: InterferenceProfile, name: str) -> Document:
    resources = {source.resource.value: source.resource for source in profile.sources}
    found = profile.found.get(resources[name])
    caused = profile.caused.get(resources[name])
    reason = profile.silent.get(f"tolerated/{name}") or "time was over"
    verdict = Verdict.NO_SIGNAL if found is None else found.verdict
    return {
        "name": name,
        "verdict": verdict.value,
        "reason": (reason if found is None else found.reason) or None,
        "tolerated": None if found is None else _score(found.tolerated),
        "caused": _score(caused),
        "caused_reason": None if caused else profile.silent.get(f"caused/{name}"),
        "rounds": 0 if found is None else found.rounds,
        "curve": [] if found is None else _curve(found),
    }


def _score(entry: Entry | None) -> Document | None:
    if entry is None:
        return None
    low, high = interval(entry.value, entry.error, 0.0, 100.0)
    return {
        "value": entry.value,
        "low": low,
        "high": 100.0 if entry.censored else high,
        "error": entry.error,
        "at_least": entry.censored,
    }


def _curve(found: Sensitivity) -> list[Document]:
    rows = []
    for point, fitted in zip(found.points, found.fitted, strict=True):
        low, high = interval(point.relative_performance, point.standard_error, 0.0, float("inf"))
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


def csv_of(document: Mapping[str, Any]) -> str:
    """A header and a row, as ``wharfinger classify predict --rows`` reads them."""
    names, values = ["name"], [document["name"].replace(",", " ").replace('"', "")]
    for kind in ("tolerated", "caused"):
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
    if kept:
        said.append(f"It keeps its performance beside all of: {', '.join(kept)}.")
    return [*said, _advice(slowed, shares_cpu=shares_cpu)]


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
