"""The experiment on measured tables, with runs by formula; and what is kept of it."""

import csv
import gzip
import io
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.simulated_runs import simulate
from wharfinger.errors import InvalidInput
from wharfinger.experiments import plots
from wharfinger.experiments.base import Arguments, Context, ExperimentResult
from wharfinger.experiments.comparison import Comparison, KeptRun, summarise
from wharfinger.experiments.registry import EXPERIMENTS, find_experiment
from wharfinger.experiments.results import as_json, write
from wharfinger.experiments.run_experiments import LOADS, MEASURED_GAVEL, MEASURED_TABLES
from wharfinger.experiments.runs import SERIES, VALUES, Case
from wharfinger.experiments.workspace import RESULTS, workspace
from wharfinger.simulator.scenario.scenario_files import load_scenario


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    folder = tmp_path / "measured tables"
    folder.mkdir()
    (folder / "isolated.csv").write_text("workload,platform,performance\na,fast,2\nb,fast,4\n")
    (folder / "pairs.csv").write_text(
        "platform,workload,beside,performance\nfast,a,b,1\nfast,b,a,3\n"
    )
    return folder


def run(tables: Path, space: Any, **kwargs: Any) -> ExperimentResult:
    arguments = Arguments(tables=tables, **({"repeats": 3} | kwargs))
    MEASURED_GAVEL.check(arguments)
    return MEASURED_GAVEL.run(Context(simulate, arguments, space, processes=1))


def test_every_policy_at_every_load(tables: Path):
    with workspace(None) as space:
        result = run(tables, space, seed=4, workloads=30)
    assert result.seeds == (4, 5, 6)
    assert list(result.comparisons) == ["low load", "medium load", "high load"]
    for comparison in result.comparisons.values():
        assert [policy.name for policy in comparison.policies] == list(MEASURED_GAVEL.policies)
        assert comparison["oracle"].runs[0].summary["workloads"] == 30
    assert len(result.rows) == len(LOADS) * 9 * 6
    row = result.rows[0]
    assert (row.name, row.published, row.unit) == ("low/oracle/qos_kept_fraction", None, "fraction")
    assert row.low <= row.measured <= row.high


def test_the_scenarios_are_read_as_they_are_kept(tables: Path):
    with workspace(None) as space:
        run(tables, space)
        for load, share in LOADS.items():
            scenario = load_scenario(str(space.folder / "scenarios" / f"{load}.yaml"))
            assert scenario.arrivals.load == share
            assert Path(scenario.measured.directory).resolve() == space.folder / "inputs"


def test_tables_side_by_side(tables: Path, tmp_path: Path):
    both = tmp_path / "both"
    for name in ("gavel", "pitot"):
        shutil.copytree(tables, both / name)
    arguments = Arguments(repeats=1, tables=both, workloads=5)
    MEASURED_TABLES.check(arguments)
    with workspace(tmp_path / "out") as space:
        result = MEASURED_TABLES.run(Context(simulate, arguments, space, processes=1))
        scenario = load_scenario(str(space.folder / "scenarios" / "pitot-high.yaml"))
        used = Path(scenario.measured.directory).resolve()
        assert used == space.folder / "inputs" / "pitot"
        assert space.inputs[0].name == "gavel/isolated.csv"
    assert list(result.comparisons) == [
        f"{of}-{load}" for of in ("gavel", "pitot") for load in LOADS
    ]


def test_without_tables_it_says_what_they_are():
    with pytest.raises(InvalidInput, match=r"needs --tables DIR, with isolated.csv \(workload,"):
        MEASURED_GAVEL.check(Arguments(repeats=1))


def test_wrong_tables_are_refused_before_anything_runs(tables: Path):
    (tables / "pairs.csv").unlink()
    with pytest.raises(InvalidInput, match=r"pairs\.csv"):
        MEASURED_GAVEL.check(Arguments(repeats=1, tables=tables))


# --- what beats the oracle ----------------------------------------------------------------------


def compared(**shifts: tuple[float, float]) -> dict[Case, Comparison]:
    """Performance and waiting loss over the oracle's, nearly the same in each of five seeds."""
    runs = []
    for name, (performance, waiting) in ({"oracle": (0.0, 0.0)} | shifts).items():
        summaries = [
            {
                "performance_mean": 0.8 + performance + 0.001 * (seed % 2) * bool(performance),
                "waiting_loss_mean": 0.1 + waiting + 0.001 * (seed % 2) * bool(waiting),
            }
            for seed in range(5)
        ]
        runs.append((name, [KeptRun("made", "fifo", n, each) for n, each in enumerate(summaries)]))
    return {Case("high"): summarise(runs)}


def test_nothing_beats_the_oracle():
    (note,) = MEASURED_GAVEL.leads(compared(random=(-0.2, 0.1)))
    assert note.startswith("Nothing beats the oracle in any metric, by paired 95% intervals.")
    assert "Of 2 comparisons about 0 would seem better by chance alone." in note


def test_what_beats_the_oracle_is_named_whichever_way_is_better():
    notes = MEASURED_GAVEL.leads(compared(random=(-0.2, -0.05), sparrow=(0.1, 0.3)))
    assert notes[0].startswith("The oracle is beaten 2 times, by paired 95% intervals. ")
    assert notes[1:] == [
        (
            "random beats the oracle in waiting_loss_mean at high load by 0.05 (-0.05 to -0.049), "
            "where its performance_mean differs by -0.2."
        ),
        "sparrow beats the oracle in performance_mean at high load by 0.1 (+0.1 to +0.1).",
    ]


def test_one_seed_tells_nothing(tables: Path):
    with workspace(None) as space:
        result = run(tables, space, repeats=1)
    assert result.notes[0] == "Whether anything beats the oracle can't be told from one seed."
    assert result.rows[0].low is None


# --- what is kept -------------------------------------------------------------------------------


@pytest.fixture
def _quickly_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures take seconds; what is in them is tested where they are drawn."""

    def save(figure: str, path: Path) -> None:
        for ending in ("png", "svg"):
            path.with_name(f"{path.name}.{ending}").write_text(figure)

    monkeypatch.setattr(plots, "check", lambda: None)
    monkeypatch.setattr(plots, "save", save)
    monkeypatch.setitem(VALUES, "ranked", lambda _values, title, _label: title)
    for name in ("utilization", "cores"):
        monkeypatch.setitem(SERIES, name, lambda _series, title: title)


def kept(tables: Path, out: Path) -> tuple[ExperimentResult, list[str]]:
    arguments = Arguments(repeats=2, tables=tables, workloads=10)
    with workspace(out) as space:
        result = MEASURED_GAVEL.run(Context(simulate, arguments, space, processes=1))
        return write(space, MEASURED_GAVEL, arguments, result)


@pytest.mark.usefixtures("_quickly_drawn")
def test_the_json(tables: Path, tmp_path: Path):
    result, files = kept(tables, tmp_path / "out")
    found = json.loads((tmp_path / "out" / RESULTS).read_text())
    assert found == json.loads(json.dumps(as_json(result, files), allow_nan=False))
    assert list(found) == ["name", "seeds", "results", "notes", "comparisons", "files"]
    assert list(found["results"][0]) == ["name", "published", "measured", "low", "high", "unit"]
    assert [each["name"] for each in found["comparisons"]] == list(result.comparisons)
    there = {str(p.relative_to(tmp_path / "out")) for p in (tmp_path / "out").rglob("*.*")}
    assert set(found["files"]) == there
    title = (tmp_path / "out" / "plots" / "performance-high.svg").read_text()
    assert title == "Performance of each workload at high load"
    assert {f"plots/{name}-{load}.{ending}" for name in ("performance", "utilization", "cores")
            for load in LOADS for ending in ("png", "svg")} < there  # fmt: skip


def test_one_line_a_run_and_one_a_workload(tables: Path, tmp_path: Path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result, _ = kept(tables, tmp_path / "out")
    runs = list(csv.DictReader((tmp_path / "out" / "runs.csv").open()))
    assert len(runs) == 3 * 9 * 2
    assert list(runs[0])[:5] == ["case", "policy", "admission", "scenario", "seed"]
    first = result.comparisons["low load"]["oracle"].runs[0].summary
    assert float(runs[0]["performance_mean"]) == first["performance_mean"]
    assert runs[0]["best_effort_performance_mean"] == ""
    packed = (tmp_path / "out" / "fates.csv.gz").read_bytes()
    fates = list(csv.DictReader(io.StringIO(gzip.decompress(packed).decode())))
    assert len(fates) == len(runs) * 10
    assert (fates[0]["case"], fates[0]["name"], fates[0]["kept"]) == ("low load", "job-0", "true")
    assert result.notes[-1].startswith("Nothing was drawn: pictures need matplotlib")


@pytest.mark.usefixtures("_quickly_drawn")
def test_it_can_be_done_again_from_what_is_kept(tables: Path, tmp_path: Path):
    kept(tables, tmp_path / "out")
    about = json.loads((tmp_path / "out" / "run.json").read_text())
    assert about["command"] == (
        "wharfinger experiment run measured-gavel --repeats 2 --seed 0 --tables inputs "
        "--workloads 10 --out again"
    )
    assert about["command"] in (tmp_path / "out" / "README.md").read_text()
    assert set(about["versions"]) == {"wharfinger", "numpy", "python"}
    assert [each["name"] for each in about["inputs"]] == ["isolated.csv", "pairs.csv"]
    assert all(len(each["sha256"]) == 64 for each in about["inputs"])
    again, _ = kept(tmp_path / "out" / "inputs", tmp_path / "again")
    for name in ("runs.csv", "fates.csv.gz", "results.json"):
        first, second = (tmp_path / folder / name for folder in ("out", "again"))
        assert first.read_bytes() == second.read_bytes()
    assert again.seeds == (0, 1)


def test_experiments_are_found_by_name():
    assert all(find_experiment(name).name == name for name in EXPERIMENTS)
    with pytest.raises(InvalidInput, match="'nothing' is not an experiment; there are paragon-"):
        find_experiment("nothing")
