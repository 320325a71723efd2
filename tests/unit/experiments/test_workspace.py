"""A result is there whole, or not at all; and nothing of anybody else's is touched."""

import hashlib
from pathlib import Path

import pytest

from wharfinger.errors import InvalidInput
from wharfinger.experiments import workspace as module
from wharfinger.experiments.workspace import RESULTS, workspace


def fill(space, words: str = "{}") -> None:
    space.write(RESULTS, words)


def test_it_is_there_when_all_is_done(tmp_path: Path):
    out = tmp_path / "deep" / "out"
    with workspace(out) as space:
        fill(space)
        space.write("scenarios/high.yaml", "name: high\n")
        assert not out.exists()
    assert (out / RESULTS).read_text() == "{}"
    assert (out / "scenarios" / "high.yaml").read_text() == "name: high\n"
    assert [path.name for path in out.parent.iterdir()] == ["out"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_what_fails_leaves_nothing(tmp_path: Path, error):
    with pytest.raises(error), workspace(tmp_path / "out") as space:
        fill(space)
        raise error
    assert list(tmp_path.iterdir()) == []


def test_without_a_place_it_is_removed():
    with workspace(None) as space:
        fill(space)
        folder = space.folder
    assert not folder.exists()


def test_an_empty_directory_is_as_good_as_none(tmp_path: Path):
    out = tmp_path / "out"
    out.mkdir()
    with workspace(out) as space:
        fill(space)
    assert (out / RESULTS).exists()


def test_results_are_replaced_only_by_force(tmp_path: Path):
    out = tmp_path / "out"
    with workspace(out) as space:
        fill(space, "old")
        space.write("old.csv", "")
    with pytest.raises(InvalidInput, match=r"is not empty; .* --force"), workspace(out):
        pytest.fail("refused before anything runs")
    with workspace(out, force=True) as space:
        fill(space, "new")
        assert (out / RESULTS).read_text() == "old"
    assert [path.name for path in out.iterdir()] == [RESULTS]
    assert (out / RESULTS).read_text() == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_failure_keeps_what_was_there(tmp_path: Path):
    out = tmp_path / "out"
    with workspace(out) as space:
        fill(space, "old")
    with pytest.raises(KeyboardInterrupt), workspace(out, force=True):
        raise KeyboardInterrupt
    assert (out / RESULTS).read_text() == "old"


def test_what_is_no_result_is_not_replaced_even_by_force(tmp_path: Path):
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(InvalidInput, match="something else than results"):
        workspace(tmp_path, force=True).__enter__()
    with pytest.raises(InvalidInput, match="is a file; name a directory"):
        workspace(tmp_path / "thesis.tex", force=True).__enter__()


def test_the_directory_that_it_runs_in_is_not_replaced(tmp_path: Path, monkeypatch):
    with workspace(tmp_path / "out") as space:
        fill(space)
    monkeypatch.chdir(tmp_path / "out")
    with pytest.raises(InvalidInput, match="is where this runs"):
        workspace(Path(), force=True).__enter__()


def test_what_was_read_is_kept_with_its_digest(tmp_path: Path):
    tables = tmp_path / "tables"
    tables.mkdir()
    (tables / "pairs.csv").write_text("a,b\n")
    (tables / "notes.txt").write_text("not read")
    with workspace(tmp_path / "out") as space:
        assert space.read(tables, ["isolated.csv", "pairs.csv"]) == space.folder / "inputs"
        fill(space)
    assert [path.name for path in (tmp_path / "out" / "inputs").iterdir()] == ["pairs.csv"]
    (found,) = space.inputs
    assert (found.name, found.size_bytes, found.kept) == ("pairs.csv", 4, True)
    assert found.sha256 == hashlib.sha256(b"a,b\n").hexdigest()


def test_large_inputs_are_named_and_not_copied(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(module, "MAX_COPIED_BYTES", 3)
    (tmp_path / "pairs.csv").write_text("a,b\n")
    with workspace(None) as space:
        assert space.read(tmp_path, ["pairs.csv"]) == tmp_path
        assert list(space.folder.iterdir()) == []
    assert not space.inputs[0].kept
