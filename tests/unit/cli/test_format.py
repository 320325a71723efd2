"""What is printed: tables for people, YAML for programs, nothing that a terminal obeys."""

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from wharfinger.cli import format as fmt
from wharfinger.cli.output import fields, printable, table, to_yaml
from wharfinger.cli.tables import columns
from wharfinger.cli.targets import target
from wharfinger.manifest.problems import Problems
from wharfinger.manifest.reader import read_documents
from wharfinger.manifest.tree import Mapping, Scalar

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@pytest.mark.slow
@given(json_values)
def test_yaml_means_what_the_value_is(value: Any):
    assert yaml.safe_load(to_yaml(value)) == value


TRAPS = [
    "on", "OFF", "yes", "No", "y", "N", "true", "False", "null", "~", "", " ", "0o14", "014", "089",
    "0x1F", "0b1", "1_000", "1:30", "190:20:30", "12e3", "1.", ".5", "-.inf", ".NaN", "2026-11-22",
    "<<", "=", "- a", "a: b", "a #b", "*a", "&a", "!a", "%a", "@a", "`a", "{a", "[a", "|", ">", "?",
    "'", '"', "---", "...", "a\nb", "\u2028", "\x85", "x" * 2000,
]  # fmt: skip


@pytest.mark.parametrize("text", TRAPS)
def test_a_string_reads_back_as_a_string_by_either_version_of_yaml(text: str):
    value = {"item": text, text + "key": [text]}
    written = to_yaml(value)
    assert yaml.safe_load(written) == value
    problems = Problems("test")
    (document,) = read_documents(written, problems)
    assert isinstance(document, Mapping)
    item = document.entries["item"].node
    assert isinstance(item, Scalar)
    assert item.value == text
    assert not problems.count


def test_a_plain_word_is_not_quoted():
    assert to_yaml({"name": "batch-1", "path": "/tmp"}) == 'name: batch-1\npath: "/tmp"'


@given(st.text())
def test_nothing_reaches_a_terminal_that_it_would_obey(text: str):
    shown = printable(text)
    assert not any(ord(character) < 32 or 127 <= ord(character) < 160 for character in shown)
    assert "\u202e" not in shown
    shown.encode()


def test_ordinary_text_is_left_as_it_is():
    assert printable("naïve café, 日本語 100%") == "naïve café, 日本語 100%"


def test_a_hostile_name_stays_in_its_cell():
    rows = [{"name": "a\x1b[2J\nb"}]
    text = table(rows, [("NAME", lambda row: row["name"])])
    assert text == "NAME\na\\x1b[2J\\nb"
    assert "\x1b" not in fields([("Name", "a\x1b[2J")])


def test_columns_are_aligned():
    rows = [{"a": "x", "b": "1"}, {"a": "longer", "b": "22"}]
    columns = [("A", lambda row: row["a"]), ("B", lambda row: row["b"])]
    assert table(rows, columns).splitlines() == ["A       B", "x       1", "longer  22"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "-"), (0, "0.0s"), (9.94, "9.9s"), (10, "10s"), (60, "1m"), (61.9, "1m1s"),
        (3600, "1h"), (3725, "1h2m"), (86_400, "1d"), (1_000_000, "11d13h"),
    ],
)  # fmt: skip
def test_durations_are_short(seconds: float | None, text: str):
    assert fmt.duration(seconds) == text


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0"), (1023, "1023"), (1024, "1Ki"), (1536, "1.5Ki"), (10 * 2**30, "10Gi"), (None, "-")],
)
def test_sizes_are_short(size: int | None, text: str):
    assert fmt.size(size) == text


def test_a_target_is_said_in_the_manifests_units():
    stated = {
        "throughput_per_second": 40_000.0,
        "latency": {"percentile": 99.0, "below_seconds": 0.002},
        "completion_seconds": None,
        "rate_per_second": None,
    }
    assert target(stated) == "40000/s p99<2ms"


def test_the_workloads_table_names_what_an_operator_looks_for():
    assert [header for header, _ in columns("workloads", "table")][:8] == [
        "NAME", "TYPE", "STATUS", "READY", "RESTARTS", "CPUS", "MEMORY", "SERVER",
    ]  # fmt: skip
