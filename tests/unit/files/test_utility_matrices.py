"""Utility matrices in files: every entry comes back, and what is broken is told by its line."""

from pathlib import Path

import pytest

from wharfinger.classification.utility import Aspect, UtilityMatrix, UtilityRow
from wharfinger.errors import InvalidInput
from wharfinger.files.utility_matrices import read_utility, write_utility
from wharfinger.model.profile import Entry, Origin
from wharfinger.model.workload import WorkloadType

HEADER = "row,group,type,column,value,error,censored,origin,measured_at"


def test_files_bring_back_every_entry(tmp_path: Path) -> None:
    entries = {
        "integer": Entry(12.5, 3.0, origin=Origin.PROFILED, measured_at=1e9 + 0.25),
        "tlb": Entry(100.0, 0.0, censored=True, origin=Origin.OFFLINE),
    }
    row = UtilityRow("program, with a comma", WorkloadType.LATENCY_CRITICAL, entries)
    matrix = UtilityMatrix(Aspect.TOLERATED, (), {}).with_row("a, b", row)
    path = tmp_path / "tolerated.csv"
    write_utility(matrix, path)
    again = read_utility(Aspect.TOLERATED, path)
    assert dict(again.rows) == dict(matrix.rows)
    assert again.columns == matrix.columns


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("a,g,,1,zero,,,,", "2: column 'value': 'zero' is not a number"),
        ("a,g,,1,0,,,,", "2: .*above 0"),
        ("a,g,,1,inf,,,,", "2: column 'value': 'inf' is not finite"),
        ("a,g,,1,1,-1,,,", "2: column 'error': '-1' is negative"),
        ("a,g,,1,1", "2: 5 fields where the header has 9"),
        ("a,g,cluster,1,1,,,,", "2: column 'type': 'cluster' is unknown; there are"),
        (",g,,1,1,,,,", "2: column 'row': '' is empty"),
    ],
)
def test_a_broken_file_is_told_by_its_line(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "x.csv"
    path.write_text(f"{HEADER}\n{line}\n")
    with pytest.raises(InvalidInput, match=message):
        read_utility(Aspect.SCALE_OUT, path)
    path.write_text("rows\n")
    with pytest.raises(InvalidInput, match="unknown column 'rows'"):
        read_utility(Aspect.SCALE_OUT, path)
    with pytest.raises(InvalidInput, match="No such file"):
        read_utility(Aspect.SCALE_OUT, tmp_path / "none.csv")
