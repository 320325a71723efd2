"""Policies beside one another, for people."""

import pytest

from tests.support.simulated_runs import Spec, simulate
from wharfinger.cli.comparison import as_text
from wharfinger.experiments.comparison import RunGroup, as_json, compare
from wharfinger.policies.registry import split_specs


def policies(repeats: int, names=("least-loaded", "oracle", "random")):
    specs = [Spec("scenario.yaml", name, workloads=200) for name in names]
    return as_json(compare(simulate, [RunGroup("case", specs)], repeats, processes=1)[0])


def test_means_and_differences_with_their_intervals():
    lines = as_text(policies(5), "table").splitlines()
    assert lines[0].split() == [
        "POLICY", "KEPT", "OF", "TARGET", "PERFORMANCE", "PLATFORM", "LOSS", "INTERFERENCE",
        "WAITING",
    ]  # fmt: skip
    assert [line.split()[0] for line in lines[1:4]] == ["least-loaded", "oracle", "random"]
    assert lines[4] == "in percent, mean and 95% interval over seeds 0 to 4"
    assert lines[6] == "against least-loaded on the same draws, in points, * 0 lies outside"
    assert lines[8].split()[0] == "oracle"
    assert "+20.0 ±0.0*" in lines[8]
    assert "-10.0 ±0.0*" in lines[9]
    assert lines[9].split()[-2:] == ["+0.0", "±0.0"]  # Waiting does not differ.


def test_one_seed_and_one_policy():
    text = as_text(policies(1, ["oracle"]), "table")
    assert "±" not in text
    assert "against" not in text
    assert text.endswith("in percent, seed 0, which alone tells no interval")


def test_wide_has_every_metric():
    text = as_text(policies(3), "wide")
    rows = [line.split() for line in text.splitlines()[1:-1]]
    assert [row[1] for row in rows[:3]] == ["least-loaded", "oracle", "random"]
    assert len({row[0] for row in rows}) == 8
    nothing = next(row for row in rows if row[0] == "best_effort_performance_mean")
    assert nothing[2:] == ["-"] * 6
    starred = [row for row in rows if row[-1] == "*"]
    assert ("performance_mean", "oracle") in [(row[0], row[1]) for row in starred]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("random, oracle", ["random", "oracle"]),
        ("quasar[confidence=0.9,classes=4],random", ["quasar[confidence=0.9,classes=4]", "random"]),
        ("quasar[]", ["quasar[]"]),
    ],
)
def test_a_comma_within_brackets_is_the_policys_own(text: str, names: list[str]):
    assert split_specs(text) == names


@pytest.mark.parametrize("output", ["table", "wide"])
def test_lines_fit_a_wide_terminal(output: str):
    assert max(map(len, as_text(policies(7), output).splitlines())) <= 120
