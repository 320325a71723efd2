"""Scores by a source on the sibling thread are a column of their own."""

from wharfinger.ibench.sources import SOURCES
from wharfinger.model.interference import SharedResource
from wharfinger.model.performance import Quantity
from wharfinger.model.profile import Entry
from wharfinger.profiler.report import document_of
from wharfinger.profiling.crossing import CurveScore
from wharfinger.profiling.curves import sensitivity
from wharfinger.profiling.rounds import AlonePerformance, InterferenceProfile, Way

BASELINE = AlonePerformance(Quantity.RATE, 100.0, 1.0, 0.01, 0.01, 20)
RESOURCE = SharedResource.INTEGER


def a_profile(full: float, caused: float | None) -> InterferenceProfile:
    noise = [0.005, -0.005] * 5
    told = [(at, 1 - (1 - full) * at / 100 + n) for at in (0.0, 20.0, 50.0, 100.0) for n in noise]
    profile = InterferenceProfile(0.05, SOURCES, BASELINE, Way.NUMBERS)
    profile.found[RESOURCE] = sensitivity([told, told], 0.05)
    profile.shares[RESOURCE] = Entry(60.0, 1.0)
    if caused is not None:
        profile.caused[RESOURCE] = CurveScore(caused, (caused,))
    return profile


def test_each_source_on_a_sibling_has_its_scores_beside_those_on_the_cpu():
    about = {"name": "p", "command": ["p"], "pid": None, "cpus": [0]}
    document = document_of(a_profile(0.5, 40.0), about, a_profile(0.8, 25.0))
    rows = {row["name"]: row for row in document["sources"]}
    row = rows["integer"]
    assert row["tolerated"]["value"] < row["sibling"]["tolerated"]["value"]
    assert (row["caused"]["value"], row["sibling"]["caused"]["value"]) == (40.0, 25.0)
    assert rows["tlb"]["sibling"] is None


def test_the_share_of_its_own_cpus_says_nothing_of_a_sibling():
    about = {"name": "p", "command": ["p"], "pid": None, "cpus": [0]}
    document = document_of(a_profile(0.5, None), about, a_profile(0.8, None))
    (row,) = (row for row in document["sources"] if row["name"] == "integer")
    assert row["caused_by"] == "cpu-share"
    assert row["sibling"]["caused"] is None
