"""The engine's own records, when somebody else has written them."""

import json
from pathlib import Path

import pytest

from wharfinger.core import events as ev
from wharfinger.engines.supervised.records import EndRecord, read_end, read_start, save_end

NESTED = '{"x":' + "[" * 8000 + "]" * 8000 + "}"


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    directory = tmp_path / "k"
    directory.mkdir(mode=0o700)
    return directory


def test_an_end_comes_back_as_it_was(run_dir: Path) -> None:
    record = EndRecord(
        ev.WorkloadStarted("k", "pid 7"), ev.WorkloadFinished("k", 3, None, "x", 1.5)
    )
    save_end(run_dir, record)
    assert read_end(run_dir) == record


def test_nobody_ends_his_neighbour(run_dir: Path) -> None:
    save_end(run_dir, EndRecord(None, ev.WorkloadFinished("other", 0, None, "exited")))
    assert read_end(run_dir) is None


@pytest.mark.parametrize(("exit_code", "number"), [(10**30, None), (-1, None), (None, 65)])
def test_an_end_that_no_program_has_is_none(
    run_dir: Path, exit_code: int | None, number: int | None
) -> None:
    end = {"key": "k", "exit_code": exit_code, "signal": number, "reason": "x"}
    (run_dir / "end").write_text(json.dumps([["WorkloadFinished", json.dumps(end)]]))
    assert read_end(run_dir) is None


def test_deep_nesting_is_no_record(run_dir: Path) -> None:
    (run_dir / "start").write_text(NESTED)
    assert read_start(run_dir) is None
    (run_dir / "end").write_text(json.dumps([["WorkloadFinished", NESTED[:6000]]]))
    assert read_end(run_dir) is None
