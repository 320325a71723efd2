"""Policies on the same draws: what is paired, and what is printed."""

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.simulated_runs import (
    Spec,
    one_has_a_fault,
    one_is_damaged,
    one_is_wrong,
    simulate,
)
from wharfinger.errors import InvalidInput, WharfingerError
from wharfinger.experiments import comparison
from wharfinger.experiments.comparison import KeptRun, RunGroup, as_json, summarise
from wharfinger.simulator.results.outcome import Outcome

NAMES = ("least-loaded", "oracle", "random")


def specs(names=NAMES, **kwargs):
    return [Spec("scenario.yaml", name, **kwargs) for name in names]


def compare(run, policies, *args, **kwargs):
    (found,) = comparison.compare(run, [RunGroup("case", policies)], *args, **kwargs)
    return found


def kept(value: float | None, seed: int = 0) -> KeptRun:
    return KeptRun("made", "fifo", seed, {"performance_mean": value})


def runs(**values: list[float | None]):
    return [
        (name, [kept(value, seed) for seed, value in enumerate(each)])
        for name, each in values.items()
    ]


def test_policies_see_the_same_seeds():
    found = compare(simulate, specs(seed=5), 4, processes=1)
    assert found.seeds == (5, 6, 7, 8)
    assert [policy.name for policy in found.policies] == list(NAMES)
    for policy in found.policies:
        assert [each.seed for each in policy.runs] == [5, 6, 7, 8]


def test_a_difference_is_taken_seed_by_seed():
    # Seeds move performance by tenths; policies differ by 0.2 with each of them.
    found = compare(simulate, specs(), 7, processes=1)
    oracle = found["oracle"]
    mean, difference = oracle.metrics["performance_mean"], oracle.difference["performance_mean"]
    assert difference.mean == pytest.approx(0.2)
    assert difference.high - difference.low < (mean.high - mean.low) / 100
    assert difference.excludes_zero
    assert found["least-loaded"].difference == {}


def test_by_hand():
    found = summarise(runs(first=[0.1, 0.5, 0.3], second=[0.2, 0.5, 0.5]))
    # Differences 0.1, 0, 0.2: mean 0.1, deviation 0.1, ± 4.30265 × 0.1 / √3.
    difference = found["second"].difference["performance_mean"]
    half = 4.302652730 * 0.1 / 3**0.5
    assert difference.mean == pytest.approx(0.1)
    assert (difference.low, difference.high) == pytest.approx((0.1 - half, 0.1 + half))
    assert difference.excludes_zero is False


def test_a_value_that_is_missing_is_paired_with_none():
    found = summarise(runs(first=[0.1, None, 0.3], second=[0.4, 0.5, 0.6]))
    assert found["second"].difference["performance_mean"].mean == pytest.approx(0.3)
    assert found["second"].metrics["performance_mean"].mean == pytest.approx(0.5)
    nothing = summarise(runs(first=[None], second=[0.5]))
    assert nothing["first"].metrics["performance_mean"] is None
    assert nothing["second"].difference["performance_mean"] is None


SCHEDULES = {"oracle": (0.5, 0.4), "random": (0.5, 0.3), "least-loaded": (0.5, 0.6)}


def made_by(spec: Spec) -> Outcome:
    kept, performance = SCHEDULES[spec.policy]
    kept += 0.2 * (spec.seed == 1 and spec.policy == "oracle")
    summary = {"qos_kept_fraction": kept, "performance_mean": performance}
    return Outcome("made", spec.policy, "fifo", spec.seed, summary)


def test_the_oracle_takes_a_better_schedule_and_no_other() -> None:
    (found,) = comparison.compare(made_by, [RunGroup("made", specs(SCHEDULES))], 3, processes=1)
    oracle = found["oracle"]
    assert [run.taken_from for run in oracle.runs] == ["least-loaded", "", "least-loaded"]
    assert [run.summary["qos_kept_fraction"] for run in oracle.runs] == [0.5, 0.7, 0.5]
    assert as_json(found)[0]["taken_from"] == {"least-loaded": 2}
    assert as_json(found)[1]["taken_from"] == {}


def test_runs_with_other_seeds_are_not_paired():
    with pytest.raises(ValueError, match="same seeds"):
        summarise([("first", [kept(0.5, 1)]), ("second", [kept(0.5, 2)])])


def test_series_are_kept_of_the_first_seed():
    found = compare(simulate, specs(["oracle"], series=True), 3, processes=1)
    kept = [each.series is not None for each in found["oracle"].runs]
    assert kept == [True, False, False]


def test_groups_are_compared_each_by_itself():
    few, many = comparison.compare(
        simulate,
        [RunGroup("few", specs(workloads=5)), RunGroup("many", specs(NAMES[:2], workloads=50))],
        2,
        processes=1,
    )
    assert few["random"].runs[0].summary["workloads"] == 5
    assert many["oracle"].runs[1].summary["workloads"] == 50
    assert len(many.policies) == 2


def test_only_what_is_wanted_is_kept_of_a_run(tmp_path: Path):
    group = RunGroup("a case", specs(NAMES[:1]), ("performance",), {"arrived": arrived})
    (found,) = comparison.compare(simulate, [group], 2, processes=1, fates=tmp_path / "fates")
    (policy,) = found.policies
    assert policy.values("performance").shape == (40,)
    assert policy.metrics["arrived"].mean == 20
    assert not any(isinstance(value, tuple) for run in policy.runs for value in run.values.values())
    first, second = sorted((tmp_path / "fates").iterdir())
    lines = gzip.decompress(first.read_bytes() + second.read_bytes()).decode().splitlines()
    assert len(lines) == 40
    assert lines[0].startswith("a case,least-loaded,0,job-0,application,batch,completed,small,")
    assert lines[20].startswith("a case,least-loaded,1,job-0,")


def arrived(outcome: Outcome) -> float:
    return len(outcome.fates)


def test_json_has_stable_keys_and_the_name_first():
    found = as_json(compare(simulate, specs(), 2, processes=1))
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert [list(each) for each in found] == [
        ["name", "seeds", "metrics", "difference", "taken_from"]
    ] * 3
    first, oracle, _ = found
    assert (first["difference"], first["seeds"]) == (None, [0, 1])
    assert list(oracle["metrics"]["performance_mean"]) == ["mean", "low", "high"]
    assert list(oracle["difference"]["performance_mean"]) == ["mean", "low", "high", "differs"]
    assert oracle["difference"]["performance_mean"]["differs"] is True
    assert oracle["metrics"]["best_effort_performance_mean"] == {
        "mean": None, "low": None, "high": None,
    }  # fmt: skip


def test_one_seed_tells_no_interval():
    _, oracle, _ = as_json(compare(simulate, specs(), 1, processes=1))
    assert oracle["difference"]["performance_mean"]["low"] is None
    assert oracle["difference"]["performance_mean"]["differs"] is None


def test_progress_counts_runs():
    told: list[tuple[int, int]] = []
    compare(simulate, specs(), 2, 1, lambda done, total: told.append((done, total)))
    assert told == [(done, 6) for done in range(7)]


@pytest.mark.parametrize(
    ("work", "error", "words"),
    [
        (one_is_wrong, InvalidInput, "no scenario of that name"),
        (one_is_damaged, WharfingerError, "the log is cut off"),
        (one_has_a_fault, RuntimeError, r"ZeroDivisionError\('nothing arrived'\)"),
    ],
)
def test_an_error_says_which_run_it_was(work, error, words):
    with pytest.raises(error, match=f"^scenario under random, seed 3: {words}$"):
        compare(work, specs(), 5, processes=1)


# --- what holds of any numbers ------------------------------------------------------------------

shares = st.floats(0, 1).map(lambda value: round(value, 6))
pairs = st.lists(st.tuples(shares, shares), min_size=2, max_size=9)


def difference(first, second):
    found = summarise(runs(first=first, second=second))["second"]
    return found.difference["performance_mean"]


@given(pairs)
def test_what_a_seed_does_to_both_does_not_count(drawn):
    first, second = map(list, zip(*drawn, strict=True))
    plain = difference(first, second)
    # Whole numbers: adding them to shares of six digits loses next to nothing.
    shifted = difference(
        [value + seed for seed, value in enumerate(first)],
        [value + seed for seed, value in enumerate(second)],
    )
    assert (shifted.mean, shifted.low, shifted.high) == pytest.approx(
        (plain.mean, plain.low, plain.high), abs=1e-9
    )


@given(pairs)
def test_the_other_way_round_it_is_the_opposite(drawn):
    first, second = map(list, zip(*drawn, strict=True))
    there, back = difference(first, second), difference(second, first)
    assert (back.mean, back.low, back.high) == (-there.mean, -there.high, -there.low)
    assert back.excludes_zero is there.excludes_zero


@given(pairs, st.randoms(use_true_random=False))
def test_the_order_of_seeds_does_not_matter(drawn, random):
    shuffled = random.sample(drawn, len(drawn))
    straight = difference(*map(list, zip(*drawn, strict=True)))
    assert difference(*map(list, zip(*shuffled, strict=True))) == straight


@given(st.lists(shares, min_size=2, max_size=9))
def test_a_policy_does_not_differ_from_itself(values):
    found = difference(values, values)
    assert (found.mean, found.low, found.high) == (0, 0, 0)
    assert found.excludes_zero is False
