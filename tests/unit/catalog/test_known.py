"""The known programs' files: what is written is read again, and what is broken is named."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from wharfinger.catalog.known import KnownProgram, KnownPrograms, MeasuringMachine
from wharfinger.catalog.known_files import SHIPPED, load_known, save_known, site_directory
from wharfinger.errors import InvalidInput
from wharfinger.estimators import Transform
from wharfinger.model.interference import SharedResource
from wharfinger.model.performance import Quantity, as_performance
from wharfinger.model.profile import Entry, Measurements

INTEGER, STORAGE = SharedResource.INTEGER, SharedResource.STORAGE_BANDWIDTH
MACHINE = MeasuringMachine(
    "A CPU", 2, 8 << 30, "Linux", "2026-11-21T00:00:00Z", "0.1", "c", 1, 1.0, 0.0, 0
)


def made() -> KnownPrograms:
    rate, latency = Quantity.RATE, Quantity.LATENCY
    return KnownPrograms(
        (
            KnownProgram(
                "one, quoted",
                "one",
                {rate: {100: Entry(1 / 3, 0.02), 1000: Entry(3.0, 0.01)}},
                {STORAGE: Entry(100.0, 2.0, censored=True), INTEGER: Entry(0.0, 1.5)},
                {INTEGER: Entry(50.0)},
            ),
            KnownProgram(
                "two",
                "two",
                {
                    Quantity.THROUGHPUT: {1000: Entry(800.0), 2000: Entry(1500.0)},
                    latency: {1000: Entry(0.004), 2000: Entry(0.002)},
                },
                {INTEGER: Entry(12.5)},
            ),
            KnownProgram(
                "three", "two", {rate: {250: Entry(7.0)}, Quantity.CPU: {250: Entry(0.24, 0.05)}}
            ),
        ),
        MACHINE,
    )


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    save_known(made(), tmp_path / "known")
    return tmp_path / "known"


def test_what_is_saved_is_loaded_again(saved: Path):
    assert load_known(saved) == replace(made(), source=saved)
    assert not [path for path in saved.iterdir() if path.name.startswith(".")]


def test_what_has_no_scores_is_loaded_again(tmp_path: Path):
    programs = tuple(replace(each, tolerated={}, caused={}) for each in made().programs)
    unscored = replace(made(), programs=programs)
    save_known(unscored, tmp_path / "known")
    assert load_known(tmp_path / "known") == replace(unscored, source=tmp_path / "known")


def test_scale_up_has_more_is_better_rows_of_every_quantity():
    matrix = made().scale_up
    assert matrix.rows == ("one, quoted", "two", "two/latency", "three")
    assert matrix.groups == ("one", "two", "two", "two")
    assert matrix.columns == ("100", "250", "1000", "2000")
    assert matrix.transform is Transform.LOG
    assert matrix.row("two/latency")[2:].tolist() == [250.0, 500.0]
    assert math.isnan(matrix.row("three")[0])
    assert as_performance(Quantity.LATENCY, as_performance(Quantity.LATENCY, 0.004)) == 0.004


def test_scores_keep_their_scale_and_a_true_zero():
    matrix = made().tolerated
    assert matrix.columns == (STORAGE, INTEGER)
    assert matrix.transform is Transform.IDENTITY
    assert matrix.row("one, quoted").tolist() == [100.0, 0.0]
    assert matrix.rows == ("one, quoted", "two")
    assert made().caused.rows == ("one, quoted",)


def test_whole_groups_are_left_out():
    kept = made().without({"two"})
    assert [known.name for known in kept.programs] == ["one, quoted"]
    assert kept.scale_up.columns == ("100", "1000")


def test_no_performance_is_no_entry():
    found = Measurements({Quantity.RATE: {100: Entry(0.0), 1000: Entry(2.0)}})
    known = KnownProgram.of("a", "a", found)
    assert known.performance == {Quantity.RATE: {1000: Entry(2.0)}}
    nothing = Measurements({Quantity.RATE: {100: Entry(0.0)}})
    assert not KnownProgram.of("a", "a", nothing).performance


def test_the_sites_own_come_before_what_is_shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert load_known().source == SHIPPED
    save_known(made(), site_directory())
    assert site_directory() == tmp_path / "wharfinger" / "known"
    assert load_known().source == site_directory()
    monkeypatch.setenv("XDG_DATA_HOME", "relative")
    assert site_directory().is_absolute()


def test_what_is_shipped_can_be_read_and_is_installed():
    known = load_known(SHIPPED)
    assert len({known.group for known in known.programs}) >= 10
    assert known.machine.cpu_model
    assert set(known.tolerated.columns) == {INTEGER, STORAGE}
    assert {100, 1000} <= set(known.allocations)


@pytest.mark.parametrize(
    ("name", "old", "new", "words"),
    [
        ("scale_up.csv", "3.0", "fast", "scale_up.csv:2: column '1000': 'fast' is not a num"),
        ("scale_up.csv", "3.0", "-3", "column '1000': '-3' is negative"),
        ("scale_up.csv", "3.0", "inf", "'inf' is not finite"),
        ("scale_up.csv", "3.0", "3.0,4", "scale_up.csv:2: 8 fields where the header has 7"),
        ("scale_up.csv", ",1000,", ",1 CPU,", "column '1 CPU': a column is a whole number"),
        ("scale_up.csv", ",1000,", ",100,", "column '100' stands twice"),
        (
            "scale_up.csv",
            "program,group",
            "group,program",
            "the header is not program,group,quantity and",
        ),
        (
            "scale_up.csv",
            "rate_per_second",
            "speed",
            "column 'quantity': 'speed' is unknown; there are",
        ),
        ("scale_up.csv", "three,two", "three,", "column 'group': '' is empty"),
        ("tolerated.csv", "12.5", "101", "column 'integer': '101' is out of range"),
        ("caused.csv", "integer", "integers", "column 'integers': that is no source"),
        ("noise.csv", "2.0,censored", "2.0,cut", "column 'censored': 'cut' is neither"),
        ("noise.csv", "0.02", "-0.02", "column 'error': '-0.02' is negative"),
        ("noise.csv", "program,quantity", "program,quality", "noise.csv:1: no column 'quantity'"),
        ("machine.json", '"format": 1', '"format": 9', "machine.json: format 9; this version"),
        ("machine.json", '"cpus": 2', '"cpus": "two"', "machine.json: Expected `int`"),
        ("machine.json", "{", "", "machine.json: "),
    ],
)
def test_what_is_broken_is_told_in_one_line(saved: Path, name: str, old: str, new: str, words: str):
    text = (saved / name).read_text()
    assert old in text
    (saved / name).write_text(text.replace(old, new, 1))
    with pytest.raises(InvalidInput) as found:
        load_known(saved)
    assert words in str(found.value)
    assert str(saved / name) in str(found.value)
    assert "\n" not in str(found.value)


@pytest.mark.parametrize("name", ["scale_up.csv", "tolerated.csv", "noise.csv", "machine.json"])
def test_a_missing_file_is_named(saved: Path, name: str):
    (saved / name).unlink()
    with pytest.raises(InvalidInput, match=rf"{name}: No such file"):
        load_known(saved)


def test_other_bytes_are_no_table(saved: Path):
    (saved / "scale_up.csv").write_bytes(b"program,group,quantity,100\n\xff")
    with pytest.raises(InvalidInput, match="not UTF-8 after line"):
        load_known(saved)
    (saved / "scale_up.csv").write_text("program,group,quantity,100\n")
    with pytest.raises(InvalidInput, match="no row follows the header"):
        load_known(saved)


def test_newer_keys_are_passed_over(saved: Path):
    machine = json.loads((saved / "machine.json").read_text())
    (saved / "machine.json").write_text(json.dumps({**machine, "rack": 7}))
    assert load_known(saved).machine == MACHINE
