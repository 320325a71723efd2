"""Experiments as data: the example of the docs, and names that are more than letters."""

import re
from dataclasses import replace
from itertools import chain
from pathlib import Path

import pytest

from tests.support.simulated_runs import simulate
from wharfinger.experiments.base import Arguments, Context, ExperimentResult
from wharfinger.experiments.registry import EXPERIMENTS
from wharfinger.experiments.runs import Figure, RunExperiment, RunMeasure
from wharfinger.experiments.workspace import Workspace, file_name, workspace
from wharfinger.policies.registry import make_policy
from wharfinger.simulator.pieces import words_of
from wharfinger.simulator.policies import ORACLE
from wharfinger.simulator.results.outcome import Outcome
from wharfinger.simulator.run import UNDER, RunSpec, run_in_turn

DOCS = Path(__file__).resolve().parents[3] / "docs" / "experiments.md"
SETTINGS = "quasar[confidence=0.9,classes=4]"


@pytest.fixture
def example() -> RunExperiment:
    (block,) = re.findall(r"^```python\n(.*?)^```", DOCS.read_text(), re.DOTALL | re.MULTILINE)
    assert len(block.splitlines()) <= 32
    names: dict[str, RunExperiment] = {}
    exec(block, names)
    return names["PARAGON_LOCAL"]


def result_of(experiment: RunExperiment, folder: Path, **given: int) -> ExperimentResult:
    arguments = Arguments(repeats=2, **given)
    experiment.check(arguments)
    return experiment.run(Context(simulate, arguments, Workspace(folder), processes=1))


@pytest.mark.long
def test_the_example_of_the_docs_runs(example: RunExperiment, tmp_path: Path):
    arguments = Arguments(repeats=2, servers=10, workloads=5, regime="moderate")
    example.check(arguments)
    result = example.run(Context(run_in_turn, arguments, Workspace(tmp_path), processes=1))
    rows = {row.name: row for row in result.rows}
    row = rows["moderate/paragon-local-low/least-loaded/performance_mean"]
    assert row.published == 0.54
    assert row.low <= row.measured <= row.high
    assert rows["moderate/paragon-local-low/random/failed"].unit == "workloads"
    assert any("oracle" in note for note in result.notes)
    assert set(result.pictures) == {
        "performance-moderate-paragon-local-low",
        "performance-moderate-paragon-local-medium",
        "kept-moderate",
    }


def harmful(spec: RunSpec) -> Outcome:
    kept, performance, unfinished = {
        "oracle": (0.9, 0.9, 0),
        "least-loaded": (0.5, 0.6, 1),
        "random": (0.4, 0.7, 0),
        "fine": (0.495, 0.695, 0),
        "bad": (0.6, 0.5, 3),
    }[spec.policy]
    numbers = {"qos_kept_fraction": kept, "performance_mean": performance}
    notes = {"unfinished": unfinished, "scale": spec.scale}
    return Outcome(spec.scenario, spec.policy, "fifo", spec.seed, numbers | notes)


def test_harm_is_told_worst_first(tmp_path: Path) -> None:
    experiment = replace(
        EXPERIMENTS["do-no-harm"],
        policies=("oracle", "least-loaded", "random", "fine", "bad"),
        scenarios=("quasar-batch", "paragon-local-low", "paragon-ec2-high"),
        regimes=(),
        measures=(RunMeasure("scale"),),
    )
    result = experiment.run(
        Context(harmful, Arguments(repeats=2), Workspace(tmp_path), processes=1)
    )
    first, *others = result.notes
    assert first == "Harm is done 6 times in 18, by more than 0.01, in means over the seeds:"
    assert others[0] == "bad at quasar-batch: unfinished 3, under random 0."
    assert others[-1] == "bad at paragon-ec2-high: performance_mean 0.5, under random 0.7."
    scales = {row.name.split("/")[0]: row.measured for row in result.rows}
    assert scales == {"quasar-batch": 250 / 324, "paragon-local-low": 1.0, "paragon-ec2-high": 0.05}
    alone = replace(experiment, policies=("oracle", "least-loaded", "random", "fine"))
    (note,) = alone.run(
        Context(harmful, Arguments(repeats=2), Workspace(tmp_path), processes=1)
    ).notes
    assert note.startswith("No policy does harm")


def test_what_is_not_better_is_told_worst_first(tmp_path: Path) -> None:
    experiment = replace(
        EXPERIMENTS["paragon-ahead"],
        policies=("oracle", "fine", "bad", "least-loaded", "random"),
        ahead="fine",
        scenarios=("quasar-batch",),
        regimes=(),
    )
    context = Context(harmful, Arguments(repeats=2), Workspace(tmp_path), processes=1)
    first, worst, *others = experiment.run(context).notes
    assert first.startswith("fine is better than another policy in 3 of 6 comparisons where")
    assert worst == "bad at quasar-batch: qos_kept_fraction by -0.1 (-0.1 to -0.1)."
    assert sorted(others)[1].startswith("random at quasar-batch: performance_mean by -0.005")
    (note,) = replace(experiment, ahead="oracle", ceiling="random").run(context).notes
    assert note.startswith("oracle is better than another policy in all of 6 comparisons where")


def test_bars_show_all_cases_and_what_was_published(example: RunExperiment, tmp_path: Path):
    pytest.importorskip("matplotlib")
    result = result_of(example, tmp_path, seed=3)
    (axes,) = result.pictures["kept-contended"]().axes
    labels = [label.get_text() for label in axes.get_xticklabels()]
    assert labels == ["paragon-local-low", "paragon-local-medium"]
    assert len(axes.patches) == 6
    published = [line for line in axes.collections if line.get_segments()[0][0][1] == 0.07]
    assert len(published) == 1


def by_admission(spec: RunSpec) -> Outcome:
    """The longer its name, the better."""
    numbers = {"performance_mean": len(spec.admission) / 100}
    return Outcome(spec.scenario, spec.policy, spec.admission or "fifo", spec.seed, numbers)


def test_a_policy_may_run_under_another_admission(tmp_path: Path):
    policies = ("paragon", "paragon[probes=2] + arq[queues=3]", "quasar + arq")
    experiment = RunExperiment(
        name="admissions",
        about="admissions",
        source="ours",
        policies=policies,
        scenarios=("made",),
        measures=(RunMeasure("performance_mean"),),
    )
    arguments = Arguments(repeats=2)
    result = experiment.run(Context(by_admission, arguments, Workspace(tmp_path), processes=1))
    measured = {row.name: row.measured for row in result.rows}
    assert measured == {
        "made/paragon/performance_mean": 0.0,
        "made/paragon[probes=2] + arq[queues=3]/performance_mean": 0.13,
        "made/quasar + arq/performance_mean": 0.03,
    }


def test_policies_with_settings_are_opaque(tmp_path: Path):
    experiment = RunExperiment(
        name="settings",
        about="settings",
        source="ours",
        policies=("oracle", SETTINGS),
        scenarios=("made",),
        measures=(RunMeasure("performance_mean"),),
        figures=(Figure("ranked", "{scenario}/performance", "Performance", policies=(SETTINGS,)),),
    )
    result = result_of(experiment, tmp_path)
    assert f"made/{SETTINGS}/performance_mean" in {row.name for row in result.rows}
    assert list(result.pictures) == ["made-performance"]
    assert file_name(SETTINGS) == "quasar-confidence-0.9-classes-4"


def test_fates_are_not_in_memory_and_are_written_where_results_are_kept(tmp_path: Path):
    experiment = replace(EXPERIMENTS["paragon-figure2"], figures=(), scenarios=("made",))
    with workspace(tmp_path / "out") as space:
        arguments = Arguments(repeats=1, regime="moderate")
        result = experiment.run(Context(simulate, arguments, space, processes=1))
        assert len(list(space.fates.iterdir())) == len(experiment.policies)
    for policy in result.comparisons["moderate/made"].policies:
        assert policy.runs[0].values == {}


OF_RUNS = [each for each in EXPERIMENTS.values() if isinstance(each, RunExperiment)]
WITH_PUBLISHED = [each for each in OF_RUNS if each.published]


@pytest.mark.parametrize("experiment", WITH_PUBLISHED, ids=lambda each: each.name)
def test_each_published_number_stands_beside_one_that_is_measured(experiment: RunExperiment):
    keys = {measure.key for measure in experiment.measures}
    scenarios = {case.scenario for case in experiment.cases(Arguments(repeats=1))}
    for each in experiment.published:
        assert each.scenario in scenarios
        assert each.policy in experiment.policies_in(each.scenario)
        assert each.measure in keys


@pytest.mark.parametrize("experiment", OF_RUNS, ids=lambda each: each.name)
def test_each_policy_and_admission_is_known(experiment: RunExperiment):
    for name in {*experiment.policies, *chain(*experiment.more_policies.values())}:
        policy, _, admission = name.partition(UNDER)
        _, own = words_of(policy)
        # The oracle and its admission need a scenario.
        own = "least-loaded" if own == ORACLE else own
        assert make_policy(own, admission="" if admission == ORACLE else admission)


@pytest.mark.parametrize("experiment", EXPERIMENTS.values(), ids=EXPERIMENTS)
def test_everything_that_is_drawn_has_a_file_of_its_own(experiment):
    if isinstance(experiment, RunExperiment):
        names = [figure.name for figure in experiment.figures]
        assert all(figure.of for figure in experiment.figures)
    else:
        names = [picture.name for picture in experiment.pictures]
    assert len(names) == len(set(names))
    assert all(file_name(name) for name in names)
