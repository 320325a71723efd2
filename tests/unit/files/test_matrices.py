"""CSV files: names with commas, gaps, and one line about whatever is wrong."""

from pathlib import Path

import numpy as np
import pytest

from tests.support.matrices import performance, to_csv
from wharfinger.errors import InvalidInput
from wharfinger.files.matrices import read_matrix


def write(folder: Path, text: str | bytes) -> Path:
    path = folder / "m.csv"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_what_was_written_is_read(tmp_path: Path):
    matrix = performance(1, missing=0.3)
    found = read_matrix(write(tmp_path, to_csv(matrix)))
    assert (found.rows, found.columns, found.groups) == (matrix.rows, matrix.columns, matrix.groups)
    np.testing.assert_array_equal(found.values, matrix.values)


def test_commas_gaps_marks_and_blank_lines(tmp_path: Path):
    text = '\ufeffname,"a, b",c\r\n"x, y",1,\r\n\r\nz,nan,2e3\r\n'
    found = read_matrix(write(tmp_path, text))
    assert (found.rows, found.columns, found.groups) == (
        ("x, y", "z"),
        ("a, b", "c"),
        ("x, y", "z"),
    )
    np.testing.assert_array_equal(found.values, [[1, np.nan], [np.nan, 2000]])


def test_a_row_without_a_group_is_its_own(tmp_path: Path):
    assert read_matrix(write(tmp_path, "n,group,x\na,g,1\nb,,2\n")).groups == ("g", "b")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", r"m.csv:1: no configuration in the header ''"),
        ("name,group\na,b\n", r"m.csv:1: no configuration in the header"),
        ("name,x\n", "m.csv:1: no row follows the header"),
        ("name,x\na,1,2\n", r"m.csv:2: 3 fields where the header has 2"),
        ("name,x\na\n", r"m.csv:2: 1 fields where the header has 2"),
        ("name,x\na,1\na,2\n", r"m.csv:3: row 'a' stands already in line 2"),
        ("name,x,x\na,1,2\n", "m.csv:1: column 'x' stands twice"),
        ("name,x\na,fast\n", r"m.csv:2: column 'x': 'fast' is not a number; leave the field empty"),
        ("name,x\na,inf\n", r"m.csv:2: column 'x': 'inf' is not finite"),
        ("name,x\na,1e999\n", r"m.csv:2: column 'x': '1e999' is not finite"),
        ("name,x\na,-1\n", r"m.csv: row 'a', column 'x': -1 has no logarithm"),
        ("name,x\na,0\n", r"m.csv: row 'a', column 'x': 0 has no logarithm"),
        (b"name,x\na,\xff\n", r"m.csv: not UTF-8 after line"),
        ('name,x\na,"' + "1" * 200_000, r"m.csv:\d: field larger than field limit"),
    ],
)
def test_what_is_wrong_is_one_line(tmp_path: Path, text: str | bytes, words: str):
    with pytest.raises(InvalidInput, match=words) as caught:
        read_matrix(write(tmp_path, text))
    assert "\n" not in str(caught.value)


def test_what_is_no_file_is_one_line(tmp_path: Path):
    with pytest.raises(InvalidInput, match="No such file or directory; name a CSV file"):
        read_matrix(tmp_path / "none.csv")
    with pytest.raises(InvalidInput, match="Is a directory"):
        read_matrix(tmp_path)
    with pytest.raises(InvalidInput, match="null byte"):
        read_matrix("a\0b")
