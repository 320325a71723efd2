"""The table of sources here and the one in C are one table; settings become command lines."""

import json
import subprocess
from pathlib import Path

import pytest

from wharfinger.errors import InvalidInput, Unavailable
from wharfinger.host.binaries import ibench_path
from wharfinger.ibench.sources import SOURCES, SourceSetting, failure, signal_here, source_named
from wharfinger.model.interference import SharedResource


def test_both_tables_say_the_same():
    listed = subprocess.run([ibench_path(), "--list"], capture_output=True, text=True, check=True)
    compiled = [json.loads(line) for line in listed.stdout.splitlines()]
    # A bubble presses on several resources, and is for `contention collect` alone.
    assert compiled.pop()["name"] == "bubble"
    assert compiled == [
        {"name": s.name, "unit": s.unit, "maximum_is_measured": s.measures_maximum} for s in SOURCES
    ]


def test_sources_are_named_after_what_they_press_on():
    assert {source_named(source.name).resource for source in SOURCES} == set(SharedResource)


def test_an_unknown_source_is_told_the_known_ones():
    with pytest.raises(InvalidInput, match="'integers'; name one of: integer, floating-point"):
        source_named("integers")


def test_a_setting_says_only_what_its_source_reads(tmp_path: Path):
    cpu_bound = SourceSetting(source_named("integer"), (3, 1), tmp_path, maximum_per_second=5.0)
    assert cpu_bound.command("--x")[1:] == (
        "integer", "--report-seconds", "1.0", "--cpus", "1,3", "--x",
    )  # fmt: skip
    storage = SourceSetting(source_named("storage-bandwidth"), (), tmp_path, 8 << 20, 5.0)
    assert storage.command()[4:] == (
        "--directory", str(tmp_path), "--file-bytes", "8388608", "--maximum", "5.0",
    )  # fmt: skip


def test_a_setting_says_what_bounds_its_source():
    memory = SourceSetting(source_named("memory-capacity"), footprint=64 << 20, quota=5)
    assert memory.command()[4:] == ("--footprint", "67108864")
    network = SourceSetting(source_named("network-bandwidth"), peer="[::1]:7000")
    assert network.command()[4:] == ("--peer", "[::1]:7000")
    assert SourceSetting(source_named("storage-capacity")).command()[6:] == ()


def test_every_source_works_on_its_unit_where_it_has_a_signal(tmp_path: Path):
    for source in SOURCES:
        signal = signal_here(SourceSetting(source, directory=tmp_path))
        assert signal.there == (signal.reason == "")


def test_there_is_no_signal_on_a_directory_that_is_not_there(tmp_path: Path):
    setting = SourceSetting(source_named("storage-bandwidth"), directory=tmp_path / "missing")
    signal = signal_here(setting)
    assert (signal.there, signal.reason) == (False, "No such file or directory")


def test_there_is_no_signal_for_a_file_that_does_not_fit(tmp_path: Path):
    setting = SourceSetting(
        source_named("storage-bandwidth"), directory=tmp_path, file_bytes=10**15
    )
    signal = signal_here(setting)
    assert not signal.there
    assert "wanted" in signal.reason or "memory" in signal.reason


def test_cpus_that_may_not_be_used_are_a_wrong_call():
    with pytest.raises(InvalidInput, match="CPU 8000 may not be used"):
        signal_here(SourceSetting(source_named("integer"), (8000,)))


def test_the_programs_last_words_become_the_error():
    assert isinstance(failure(2, "wharfinger-ibench: --cpus: bad\n"), InvalidInput)
    assert str(failure(3, "noise\nwharfinger-ibench: no signal\n")) == "no signal"
    assert isinstance(failure(-9, ""), Unavailable)
