"""``wharfinger experiment``: what is printed, what is written, and one line about what is wrong."""

import json
import sys
from pathlib import Path

import pytest

from tests.support.simulated_runs import one_is_wrong, simulate
from wharfinger.cli.main import main
from wharfinger.experiments.registry import EXPERIMENTS


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wharfinger.simulator.run.run_in_turn", simulate)
    # Pictures take seconds; what is drawn is tested where it is drawn.
    monkeypatch.setitem(sys.modules, "matplotlib", None)


@pytest.fixture
def tables(tmp_path: Path) -> str:
    folder = tmp_path / "tables"
    folder.mkdir()
    (folder / "isolated.csv").write_text("workload,platform,performance\na,fast,2\nb,fast,4\n")
    (folder / "pairs.csv").write_text("platform,workload,beside,performance\nfast,a,b,1\n")
    return str(folder)


def call(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    try:
        status = main(["experiment", *argv])
    except SystemExit as end:
        status = int(end.code or 0)
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def measured(tables: str, *argv: str) -> list[str]:
    return [
        "run", "measured-gavel", "--tables", tables, "--processes", "1", "--repeats", "2", *argv,
    ]  # fmt: skip


def test_list(capsys: pytest.CaptureFixture[str]):
    status, out, _ = call(capsys, "list", "-o", "json")
    found = json.loads(out)
    assert status == 0
    assert [each["name"] for each in found] == list(EXPERIMENTS)
    assert list(found[0]) == ["name", "about", "source", "takes", "repeats"]
    _, out, _ = call(capsys, "list", "-o", "wide")
    assert "--servers --tables --workloads" in out


def test_json(capsys: pytest.CaptureFixture[str], tables: str):
    status, out, err = call(capsys, *measured(tables, "--seed", "3", "-o", "json"))
    found = json.loads(out)
    assert (status, err) == (0, "")  # In a pipe there is no progress.
    assert (found["name"], found["seeds"], found["files"]) == ("measured-gavel", [3, 4], [])
    assert found["results"][0]["published"] is None


def test_a_result_directory(capsys: pytest.CaptureFixture[str], tables: str, tmp_path: Path):
    out_dir = tmp_path / "out"
    argv = measured(tables, "--out", str(out_dir), "-o", "json")
    status, out, _ = call(capsys, *argv)
    assert status == 0
    files = json.loads(out)["files"]
    assert str(out_dir / "results.json") in files
    assert all(Path(file).is_file() for file in files)
    status, out, err = call(capsys, *argv)
    assert (status, out) == (2, "")
    assert "is not empty" in err
    assert call(capsys, *argv, "--force")[0] == 0


def test_for_people(capsys: pytest.CaptureFixture[str], tables: str, tmp_path: Path):
    _, out, _ = call(capsys, *measured(tables, "--out", str(tmp_path / "out")))
    assert out.startswith("low load\nPOLICY ")
    assert "against oracle on the same draws" in out
    assert "Nothing beats the oracle in any metric" in out
    assert f"files in {tmp_path / 'out'}; README.md says which" in out


def test_what_fails_leaves_nothing(
    capsys: pytest.CaptureFixture[str], tables: str, tmp_path: Path, monkeypatch
):
    monkeypatch.setattr("wharfinger.simulator.run.run_in_turn", one_is_wrong)
    out_dir = tmp_path / "deep" / "out"
    argv = measured(tables, "--out", str(out_dir), "--seed", "2")
    status, out, err = call(capsys, *argv)
    assert (status, out) == (2, "")
    assert err == "wharfinger: low under random, seed 3: no scenario of that name\n"
    assert list(out_dir.parent.iterdir()) == []


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["run"], "experiment run needs a NAME"),
        (["run", "nothing"], "'nothing' is not an experiment; there are paragon-figure2"),
        (["run", "measured-gavel"], "measured-gavel needs --tables DIR, with isolated.csv"),
        (["run", "measured-gavel", "--tables", "/no/such"], "/no/such: is not there"),
        (
            ["run", "measured-gavel", "--repeats", "0"],
            "--repeats: '0': write a whole number from 1",
        ),
        (
            ["run", "measured-gavel", "--repeats", "1001"],
            "--repeats: '1001': write a whole number from 1 to 1000",
        ),
        (
            ["run", "measured-gavel", "--processes", "0"],
            "--processes: '0': write a whole number from 1",
        ),
        (["run", "measured-gavel", "--servers", "x"], "'x': write a whole number"),
        (
            ["run", "measured-gavel", "--regime", "moderate"],
            "--regime is not for measured-gavel; leave it out",
        ),
        (["run", "ibench-figure54", "--regime", "wild"], "--regime: 'wild' is no regime"),
        (["list", "--regime", "moderate"], "--regime is for experiment run; leave it out"),
        (["run", "measured-gavel", "--force"], "--force is for --out; leave it out"),
        (["list", "measured-gavel"], "'measured-gavel' is for experiment run; leave it out"),
        (["list", "--seed", "0"], "--seed is for experiment run; leave it out"),
        (["paint"], "invalid choice: 'paint'"),
    ],
)
def test_a_wrong_call_is_one_line(capsys: pytest.CaptureFixture[str], argv, words: str):
    status, out, err = call(capsys, *argv)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert words in err
