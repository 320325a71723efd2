"""What was not measured is estimated from the known programs, and marked."""

from typing import Any

from wharfinger.catalog.known import KnownProgram, KnownPrograms, MeasuringMachine
from wharfinger.model.interference import SharedResource
from wharfinger.model.profile import Entry
from wharfinger.profiler.completing import complete

INTEGER, STORAGE = SharedResource.INTEGER, SharedResource.STORAGE_BANDWIDTH


def known() -> KnownPrograms:
    """Those that tolerate little integer work tolerate much of the disk's."""
    programs = []
    for number in range(12):
        scores = {INTEGER: Entry(5.0 + 8 * number, 1.0), STORAGE: Entry(95.0 - 8 * number, 1.0)}
        programs.append(KnownProgram(f"p{number}", f"p{number}", {}, scores, scores))
    machine = MeasuringMachine("", 2, 1, "", "2026-01-01T00:00:00Z", "", "", 0, 1.0, 0.0, 0.0)
    return KnownPrograms(tuple(programs), machine)


def a_profile(tolerated: float | None) -> dict[str, Any]:
    score = None if tolerated is None else {"value": tolerated}
    row = {"name": "integer", "tolerated": score, "caused": None, "estimated": []}
    return {"sources": [row]}


def test_a_source_that_was_not_injected_is_estimated_with_its_uncertainty():
    document = a_profile(10.0)
    complete(document, known())
    rows = {row["name"]: row for row in document["sources"]}
    assert rows["integer"]["tolerated"] == {"value": 10.0}
    assert rows["integer"]["estimated"] == []
    told = rows["storage-bandwidth"]
    assert told["estimated"] == ["tolerated"]
    assert told["tolerated"]["low"] < told["tolerated"]["value"] < told["tolerated"]["high"]
    assert told["tolerated"]["value"] > 50


def test_from_nothing_nothing_is_estimated():
    document = a_profile(None)
    complete(document, known())
    assert document == a_profile(None)
