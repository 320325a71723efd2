"""The one reader of CSV files: lines by the names of columns, errors with their place."""

import math
from pathlib import Path

import pytest

from wharfinger.errors import InvalidInput
from wharfinger.files.tabular import Table, csv_text, read_table, text_lines


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "t.csv"


def test_lines_are_numbered_as_in_the_file(path: Path):
    path.write_text('\n name , x\n\n"a\nb",1\nc,\n')
    lines = list(read_table(path, ["x", "name"]))
    assert [(line.number, line["name"]) for line in lines] == [(5, "a\nb"), (6, "c")]
    assert lines[0].number_of("x") == 1
    assert math.isnan(lines[1].measured("x"))


def test_what_is_written_is_read(path: Path):
    path.write_text(csv_text([["name", "x"], ['a "b", c', "1"]]))
    assert [line["name"] for line in read_table(path, ["name", "x"])] == ['a "b", c']


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("name,y\n", "t.csv:1: unknown column 'y'; the columns are name, x, note"),
        ("name,nmae\n", "t.csv:1: unknown column 'nmae'; did you mean name?"),
        ("name\n", "t.csv:1: no column 'x'; the header has name"),
        ("", "t.csv:1: no column 'name'; the header has none"),
        ("name,x,x\n", "t.csv:1: column 'x' stands twice; remove one"),
        ("name,x\na\n", "t.csv:2: 1 fields where the header has 2; leave what was not measured"),
        ('name,x\na,"1\n', "t.csv:2: unexpected end of data; write it as comma-separated values"),
        ("name,x\na,101\n", "t.csv:2: column 'x': '101' is out of range; write 0 to 100"),
        ("name,x\na,-1\n", "t.csv:2: column 'x': '-1' is negative; write 0 to 100"),
    ],
)
def test_what_is_wrong_has_a_place_and_a_mend(path: Path, text: str, words: str):
    path.write_text(text)
    with pytest.raises(InvalidInput) as refused:
        for line in read_table(path, ["name", "x"], ["note"]):
            line.number_of("x", high=100)
    assert str(refused.value).startswith(str(path.parent))
    assert words in str(refused.value)


def test_a_tables_own_mend_ends_every_message(path: Path):
    with pytest.raises(InvalidInput, match="No such file or directory; measure again"):
        Table(path, "measure again")
    path.write_text("x\nfast\n")
    (line,) = Table(path, "measure again").lines()
    with pytest.raises(InvalidInput, match=r":2: column 'x': 'fast' is not a number; measure aga"):
        line.measured("x")


def test_other_files_of_lines_say_what_they_should_be(path: Path):
    with pytest.raises(InvalidInput, match="No such file or directory; name an SWF file"):
        list(text_lines(path, "an SWF file"))
