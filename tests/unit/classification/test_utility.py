"""Entries keep where they come from; corrections forget; files bring back what was written."""

from dataclasses import replace

import pytest

from wharfinger.classification.utility import (
    MIN_PROGRAMS,
    Aspect,
    UtilityMatrix,
    UtilityRow,
    corrected,
)
from wharfinger.errors import InvalidInput
from wharfinger.estimators.matrix import Transform
from wharfinger.model.profile import Entry, Origin
from wharfinger.model.workload import WorkloadType

DAY = 86400.0
SERVICE, SINGLE = WorkloadType.LATENCY_CRITICAL, WorkloadType.SINGLE_NODE


def observed(value: float, at: float, error: float = 0.02) -> Entry:
    return Entry(value, error, origin=Origin.OBSERVED, measured_at=at)


def test_what_stays_the_same_becomes_surer_and_what_changed_is_known_anew() -> None:
    entry = Entry(10.0, 0.02, measured_at=0.0)
    for at in range(1, 6):
        entry = corrected(entry, observed(10.0, at * 1.0), Transform.LOG, 60.0)
    assert entry.value == pytest.approx(10.0)
    assert entry.error < 0.015
    changed = corrected(entry, observed(20.0, 3600.0), Transform.LOG, 60.0)
    assert changed.value == pytest.approx(20.0, rel=1e-6), "an hour later nothing is left of it"


def with_entry(matrix: UtilityMatrix, column: str, entry: Entry) -> UtilityMatrix:
    row = matrix.rows["a"]
    return matrix.with_row("a", replace(row, entries={**row.entries, column: entry}))


def test_a_prediction_is_no_evidence() -> None:
    measured = observed(10.0, 0.0)
    predicted = Entry(30.0, 0.5, origin=Origin.PREDICTED, measured_at=1.0)
    assert corrected(measured, predicted, Transform.LOG, 60.0) is measured
    assert corrected(predicted, measured, Transform.LOG, 60.0) is measured
    matrix = UtilityMatrix.of(Aspect.SCALE_OUT, {"a": {"1": 1.0, "2": 2.0}})
    matrix = with_entry(matrix, "4", predicted)
    known = matrix.known_to(None)
    assert known is not None
    assert known.row("a").tolist()[:2] == [1.0, 2.0]
    assert known.row("a")[2] != known.row("a")[2], "nothing was measured there"


def test_a_lower_bound_says_nothing_of_what_lies_above_it() -> None:
    known, bound = Entry(60.0, 5.0), Entry(40.0, 0.0, censored=True)
    assert corrected(known, bound, Transform.IDENTITY, 60.0) is known
    higher = Entry(90.0, 0.0, censored=True)
    assert corrected(known, higher, Transform.IDENTITY, 60.0) is higher


def rows(types: dict[str, WorkloadType | None]) -> UtilityMatrix:
    made = UtilityMatrix(Aspect.SCALE_UP, ("cpu=1000m", "cpu=2000m"), {})
    for name, type_ in types.items():
        entries = {"cpu=1000m": Entry(1.0), "cpu=2000m": Entry(2.0)}
        made = made.with_row(name, UtilityRow(name, type_, entries))
    return made


def test_each_type_is_classified_by_its_own_programs_once_there_are_enough() -> None:
    services = {f"s{n}": SERVICE for n in range(MIN_PROGRAMS)}
    matrix = rows({**services, "other": SINGLE, "any": None})
    own, few = matrix.known_to(SERVICE), matrix.known_to(SINGLE)
    assert own is not None
    assert few is not None
    assert set(own.rows) == {*services, "any"}
    assert set(few.rows) == {*services, "other", "any"}
    assert matrix.known_to(None).rows == tuple(matrix.rows)
    assert UtilityMatrix(Aspect.SCALE_UP, ("cpu=1000m",), {}).known_to(SINGLE) is None


def test_rows_of_few_entries_do_not_put_the_others_out() -> None:
    columns = tuple(f"cpu={cpu}m" for cpu in (250, 500, 1000, 2000, 4000))
    matrix = UtilityMatrix(Aspect.SCALE_UP, columns, {})
    for number in range(MIN_PROGRAMS):
        entries = {"cpu=250m": Entry(1.0), "cpu=500m": Entry(2.0)}
        matrix = matrix.with_row(f"s{number}", UtilityRow(f"s{number}", SERVICE, entries))
    known = rows({"whole": SINGLE}).rows["whole"]
    matrix = matrix.with_row("whole", known)
    found = matrix.known_to(SERVICE)
    assert found is not None
    assert "whole" in found.rows


@pytest.mark.parametrize(
    ("kind", "column"),
    [
        (Aspect.SCALE_UP, "cpu"),
        (Aspect.SCALE_OUT, "x1"),
        (Aspect.SCALE_OUT, "0"),
        (Aspect.CAUSED, "noise"),
    ],
)
def test_a_column_that_is_none_is_refused(kind: Aspect, column: str) -> None:
    with pytest.raises(InvalidInput, match=f"{kind}, column '{column}'"):
        UtilityMatrix(kind, (), {}).with_row("a", UtilityRow("a", None, {column: Entry(1.0)}))


def test_corrections_make_another_matrix_and_new_columns_come_last() -> None:
    matrix = UtilityMatrix.of(Aspect.HETEROGENEITY, {"a": {"x": 1.0}}, {"a": "program"})
    other = with_entry(matrix, "new", observed(3.0, DAY))
    assert matrix.columns == ("x",)
    assert other.columns == ("x", "new")
    assert other.rows["a"].group == "program"
    with pytest.raises(InvalidInput, match="above 0"):
        with_entry(matrix, "x", observed(0.0, 0.0))
    with pytest.raises(InvalidInput, match="0 to 100"):
        UtilityMatrix(Aspect.CAUSED, (), {}).with_row(
            "a", UtilityRow("a", None, {"x": Entry(101.0)})
        )


def test_a_mean_of_two_scores_of_a_hundred_is_one():
    one, other = Entry(100.0, 7.855637870926146), Entry(100.0, 20.26383344117235)
    assert corrected(one, other, Transform.IDENTITY, 1e9).value == 100.0
