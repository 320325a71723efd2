"""At most four runs, each classification's second entry chosen by what it tells."""

from dataclasses import replace

import numpy as np
import pytest

from tests.unit.classification.test_axis import CPUS, PLATFORMS, REFERENCE, SERVERS, made
from wharfinger.classification.axis import axes_between
from wharfinger.classification.classifier import Classifications
from wharfinger.classification.joint_plan import (
    MAX_RUNS,
    Possible,
    joint_plan,
    telling_sources,
)
from wharfinger.classification.platforms import platform_column
from wharfinger.classification.utility import Aspect, UtilityMatrix
from wharfinger.model.configuration import Configuration, Setting
from wharfinger.model.interference import SharedResource

SOURCES = (SharedResource.INTEGER, SharedResource.TLB, SharedResource.VECTOR)
EVERYTHING = Possible(
    "usual", list(map(Configuration, CPUS)), dict.fromkeys(PLATFORMS, max(CPUS)), SERVERS, SOURCES
)


@pytest.mark.parametrize("seed", [None, 0, 1])
def test_four_runs_give_two_entries_to_each_classification(seed) -> None:
    rng = None if seed is None else np.random.default_rng(seed)
    runs = joint_plan(made(), EVERYTHING, rng=rng)
    assert len(runs) == MAX_RUNS
    reference = runs[0].setting
    assert [axes_between(run.setting, reference) for run in runs] == [
        (),
        (Aspect.SCALE_UP,),
        (Aspect.SCALE_OUT,),
        (Aspect.HETEROGENEITY,),
    ]
    assert len(runs[0].sources) == 2
    assert not any(run.sources for run in runs[1:])
    assert reference.configuration.cpu_millicpus > runs[1].setting.configuration.cpu_millicpus


def test_what_can_not_be_run_or_is_not_classified_takes_no_run() -> None:
    alone = Possible("usual", [Configuration(1000), Configuration(2000)])
    assert len(joint_plan(made(), alone)) == 2
    assert not joint_plan(made(), Possible("usual", []))
    assert len(joint_plan(Classifications({}), EVERYTHING)) == 2
    known = UtilityMatrix.of(Aspect.HETEROGENEITY, {"a": {"elsewhere": 1.0}})
    assert len(joint_plan(Classifications({Aspect.HETEROGENEITY: known}), EVERYTHING)) == 2


def test_the_platform_that_tells_most_is_chosen() -> None:
    """One platform is as the reference for everybody; another one differs."""
    rng = np.random.default_rng(0)
    rows = {
        f"p{n}": {
            "usual": 1.0,
            "same": 1.0 * np.exp(rng.normal(0, 0.01)),
            "telling": (other := np.exp(rng.normal(0, 0.5))),
            "like it": other * np.exp(rng.normal(0, 0.05)),
        }
        for n in range(20)
    }
    classifications = Classifications(
        {Aspect.HETEROGENEITY: UtilityMatrix.of(Aspect.HETEROGENEITY, rows)}
    )
    possible = Possible(
        REFERENCE.platform, [REFERENCE.configuration], dict.fromkeys(("same", "telling"), 10**6)
    )
    runs = joint_plan(classifications, possible)
    assert runs[-1].setting.platform == "telling"


def test_as_many_platforms_as_are_asked_for_are_run_on_once_each() -> None:
    few, more = (replace(EVERYTHING, elsewhere=count) for count in (1, 2))
    first, both = joint_plan(made(), few), joint_plan(made(), more)
    assert both[: len(first)] == first
    elsewhere = [r.setting.platform for r in both if r.setting.platform != EVERYTHING.reference]
    assert len(elsewhere) == len(set(elsewhere)) == 2


def test_a_small_platform_takes_the_smaller_run_of_the_two() -> None:
    """Where an allocation on a small platform tells most, that one is run there."""
    rng = np.random.default_rng(0)
    rows = {
        f"p{n}": {
            platform_column("usual", 1000): (level := np.exp(rng.normal(0, 1.0))),
            platform_column("usual", 4000): level * 3,
            platform_column("small", 1000): level * np.exp(rng.normal(0, 0.5)),
            platform_column("large", 1000): level,
            platform_column("large", 4000): level * 3,
        }
        for n in range(20)
    }
    kind = Aspect.HETEROGENEITY
    classifications = Classifications({kind: UtilityMatrix.of(kind, rows)}, "gaussian")
    pair = [Configuration(1000), Configuration(4000)]
    for holds, expected in (
        ({"small": 1000, "large": 8000}, Setting("small", Configuration(1000))),
        ({"small": 500, "large": 1500}, Setting("large", Configuration(1000))),
    ):
        runs = joint_plan(classifications, Possible("usual", pair, holds))
        assert runs[0].setting == Setting("usual", Configuration(4000))
        assert runs[-1].setting == expected
    assert len(joint_plan(classifications, Possible("usual", pair, {"small": 500}))) == 2


def test_each_source_is_drawn_the_more_often_the_more_it_tells() -> None:
    rng = np.random.default_rng(0)
    known = {
        f"p{at}": {
            "integer": 50.0 + rng.normal(0, 1.0),
            "tlb": 50.0 + rng.normal(0, 15.0),
        }
        for at in range(12)
    }
    made = Classifications({Aspect.TOLERATED: UtilityMatrix.of(Aspect.TOLERATED, known)})
    tolerated = made.recommender(Aspect.TOLERATED)
    sources = (SharedResource.INTEGER, SharedResource.TLB, SharedResource.VECTOR)
    drawn = [telling_sources(tolerated, sources, 1, f"w{at}")[0] for at in range(2000)]
    steady, varied, unknown = (drawn.count(source) for source in sources)
    assert 0 < steady < varied
    assert unknown == 0, "what no known program has a score of comes after those that some have"
    assert drawn[:9] == [telling_sources(tolerated, sources, 1, f"w{at}")[0] for at in range(9)]
    assert {telling_sources(tolerated, sources, 1, f"w{at}")[1:] for at in range(9)} == {
        (SharedResource.VECTOR,)
    }
    assert set(telling_sources(tolerated, sources, 2, "w")) == set(sources)
    assert telling_sources(None, sources, 3, "w") == sources
    assert telling_sources(tolerated, sources, 0, "w") == ()
