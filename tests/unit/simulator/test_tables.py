"""Measured tables are read as they are, and what is wrong with one is a line."""

from pathlib import Path

import pytest

from tests.support.measured_tables import ISOLATED, PAIRS, write_tables
from wharfinger.errors import InvalidInput
from wharfinger.simulator.truth.tables import read_tables


def test_all_four_are_read(tmp_path: Path):
    tables = read_tables(
        write_tables(
            tmp_path,
            scale_out="scale,platform,workload,performance\n2,fast,a,18\n",
            groups="platform,workload,beside,performance\nfast,a,b + a,3\n",
        )
    )
    assert tables.workloads == ("a", "b", "c")
    assert tables.platforms == ("fast", "slow")
    assert tables.isolated["a", "slow"] == 4
    assert tables.pairs["fast", "a", "b"] == 8
    assert tables.scale_out == {("a", "fast", 2): 18}
    assert tables.groups == {("fast", "a", ("a", "b")): 3}


def test_a_line_that_stands_twice_is_one(tmp_path: Path):
    tables = read_tables(write_tables(tmp_path, pairs=PAIRS + "fast,a,a,5.0\n\n"))
    assert tables.pairs["fast", "a", "a"] == 5


def test_what_was_not_measured_is_absent(tmp_path: Path):
    assert ("slow", "a", "c") not in read_tables(write_tables(tmp_path)).pairs


@pytest.mark.parametrize(
    ("isolated", "says"),
    [
        ("workload,platform,performence\n", "1: unknown column 'performence'; did you mean"),
        ("workload,platform\n", "1: no column 'performance'; the header has workload, platform"),
        ("workload,platform,platform,performance\n", "1: column 'platform' stands twice"),
        ("workload,platform,performance\n", "no line follows the header; give at least one"),
        ("", "1: no column 'workload'"),
        (ISOLATED + "d,fast,quick\n", "8: column 'performance': 'quick' is not a number; write"),
        (ISOLATED + "d,fast,nan\n", "8: column 'performance': 'nan' is not finite"),
        (ISOLATED + "d,fast,-1\n", "8: column 'performance': '-1' is negative; write 0 or more"),
        (ISOLATED + "a,fast,11\n", "8: column 'performance': '11' contradicts line 2, 10; remove"),
        (ISOLATED + " ,fast,11\n", "8: column 'workload': ' ' is empty; write a name"),
        (ISOLATED + "d,fast\n", "8: 2 fields where the header has 3"),
        (ISOLATED + "d + e,fast,1\n", "8: column 'workload': 'd + e' holds ' + '"),
    ],
)
def test_a_wrong_isolated_table_is_said_in_one_line(tmp_path: Path, isolated: str, says: str):
    with pytest.raises(InvalidInput) as refused:
        read_tables(write_tables(tmp_path, isolated))
    assert says in str(refused.value)
    assert "isolated.csv" in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("pairs", "says"),
    [
        (
            PAIRS + "fast,d,a,1\n",
            "15: column 'workload': 'd' names 'd', which is not in isolated.csv",
        ),
        (PAIRS + "fast,a,d,1\n", "15: column 'beside': 'd' names 'd', which is not"),
        (PAIRS + "other,a,b,1\n", "'a' was not measured alone on 'other'; add its line"),
        (PAIRS + "slow,c,a,1\n", "'1' though isolated.csv has 0 alone; mend one of the two"),
        ("platform,workload,beside,performance\n", "no line follows the header"),
    ],
)
def test_a_wrong_pairs_table_is_said_in_one_line(tmp_path: Path, pairs: str, says: str):
    with pytest.raises(InvalidInput) as refused:
        read_tables(write_tables(tmp_path, pairs=pairs))
    assert says in str(refused.value)
    assert "pairs.csv" in str(refused.value)


@pytest.mark.parametrize("scale", ["0", "1.5", "-2", "1e9"])
def test_a_scale_is_a_number_of_servers(tmp_path: Path, scale: str):
    table = f"workload,platform,scale,performance\na,fast,{scale},3\n"
    with pytest.raises(InvalidInput, match="column 'scale'"):
        read_tables(write_tables(tmp_path, scale_out=table))


def test_a_group_names_known_workloads(tmp_path: Path):
    table = "platform,workload,beside,performance\nfast,a,b + x,3\n"
    with pytest.raises(InvalidInput, match="names 'x', which is not in isolated"):
        read_tables(write_tables(tmp_path, groups=table))


def test_a_directory_that_is_none(tmp_path: Path):
    with pytest.raises(InvalidInput, match=r"is not there; name one that holds isolated\.csv"):
        read_tables(tmp_path / "nowhere")
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInput, match="is not a directory"):
        read_tables(tmp_path / "file")


def test_a_missing_table_and_bytes_that_are_no_text(tmp_path: Path):
    folder = write_tables(tmp_path)
    (folder / "pairs.csv").unlink()
    with pytest.raises(InvalidInput, match=r"pairs\.csv: No such file"):
        read_tables(folder)
    (folder / "pairs.csv").write_bytes(b"platform\xff")
    with pytest.raises(InvalidInput, match="not UTF-8 after line 0"):
        read_tables(folder)
