"""What a dry run would get, and what else: by any policy, and without deciding anything."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import stories
from tests.support.cluster import Cluster, running, server, workload
from wharfinger.cli.outlook import outlook_text
from wharfinger.core import events as ev
from wharfinger.core.codec import encode_state
from wharfinger.core.outlook import MAX_ASKED, measurements_like, outlook
from wharfinger.model.profile import Estimate, Measurements
from wharfinger.model.view import Capabilities
from wharfinger.model.workload import OnMiss, Scale
from wharfinger.policies.registry import POLICIES
from wharfinger.service.outlooks import Basis, OutlookModel, from_type, shown

KNOWN = stories.classified()


def asked(story: Cluster, per_second: float = 120.0, **changes) -> OutlookModel:
    wanted = stories.rate("encode", per_second, **changes)
    made = outlook(story.manager, wanted, story.now, KNOWN)
    assert made is not None
    return shown(made, wanted, Basis.SAME_PROGRAM, "")


def on_several(servers: int = 4) -> Cluster:
    cluster = Cluster("quasar", able=Capabilities(max_servers_per_workload=8))
    for index in range(servers):
        cluster.tell(ev.ServerReported(server(f"s{index}", 1, 2048)))
    cluster.sync()
    return cluster


def test_it_says_what_the_target_takes_and_how_sure_that_is() -> None:
    story = stories.Story()
    told = asked(story)
    assert told.attainable
    assert told.chosen is not None
    assert told.chosen.kept
    assert told.chosen.predicted is not None
    assert told.chosen.predicted.low <= told.chosen.predicted.mean <= told.chosen.predicted.high
    assert 0.8 <= (told.chosen.kept_probability or 0) <= 1
    (other,) = told.others
    assert [given.name for given in other.servers] == ["server1"]


def test_what_is_placed_then_is_what_was_said() -> None:
    story = stories.Story()
    told = asked(story)
    story.submit(stories.rate("encode", 120.0))
    story.profile("encode", KNOWN, stories.measured())
    assert told.chosen is not None
    placed = story.record("encode").placements
    assert [(given.name, given.cpus * 1000) for given in told.chosen.servers] == [
        (p.server, p.allocation.cpu_millicpus) for p in placed
    ]


def test_a_target_that_cannot_be_kept_says_so_and_what_comes_nearest() -> None:
    told = asked(stories.Story(), 900.0)
    assert told.attainable is False
    assert told.chosen is not None
    assert told.chosen.kept is False
    refused = asked(stories.Story(), 900.0, on_miss=OnMiss.REJECT)
    assert refused.chosen is None
    assert "out of reach" in refused.refusal
    assert refused.attainable is False
    assert refused.others[0] == told.chosen, "what comes nearest"
    assert "unknown" not in refused.message
    told_in_words = outlook_text(refused.as_json())
    assert "the target cannot be kept; the best is " in told_in_words
    assert "would be chosen" not in told_in_words


def test_what_needs_no_prediction_is_told_none() -> None:
    filler, unaimed = workload("filler", best_effort=True), workload("unaimed")
    for wanted, why in ((filler, "the CPU that is idle"), (unaimed, "its reservation")):
        story = stories.Story()
        made = outlook(story.manager, wanted, story.now, stories.like())
        assert made is not None
        message = shown(made, wanted, Basis.TYPE, from_type(wanted)).message
        assert message.endswith(f"has no target, and gets {why}")


def refusal_of(told: OutlookModel) -> str:
    assert told.chosen is None
    assert told.others == []
    return told.refusal


def test_no_room_is_told_with_what_there_is() -> None:
    story, _ = stories.waiting_for_room()
    assert "no server has" in refusal_of(asked(story, 200.0))


def test_others_are_cheapest_first_and_at_most_three() -> None:
    told = asked(on_several(), 500.0, scale=Scale(max_servers=4))
    assert told.chosen is not None
    assert len(told.chosen.servers) == 1, "its scale-out is unknown"
    scaled = replace(KNOWN, servers={1: Estimate(1.0, 0.0), 4: Estimate(4.0, 0.0)})
    wanted = stories.rate("encode", 500.0, scale=Scale(max_servers=4))
    cluster = on_several(6)
    made = outlook(cluster.manager, wanted, cluster.now, scaled)
    assert made is not None
    options = shown(made, wanted, Basis.SAME_PROGRAM, "")
    assert options.chosen is not None
    assert len(options.chosen.servers) >= 2
    assert len(options.others) == 3
    assert {len(option.servers) for option in options.others} >= {len(options.chosen.servers)}
    kept = [option.cpus for option in options.others if option.kept]
    assert kept == sorted(kept)


def test_what_has_its_place_has_no_outlook() -> None:
    story, name = stories.placed()
    assert outlook(story.manager, story.record(name).workload, story.now, KNOWN) is None


def test_the_same_program_is_not_measured_again() -> None:
    story, name = stories.placed()
    like = replace(story.record(name).workload, name="again")
    found, why = measurements_like(story.manager, like, story.now)
    assert found == story.record(name).measurements
    assert found.runs == 3
    assert why == f"measured as {name}, the same program"
    new = stories.rate("new", 1.0)
    new = replace(new, run=replace(new.run, command=("other",)))
    assert measurements_like(story.manager, new, story.now) == (Measurements(), "")


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_any_policy_says_what_it_can(policy: str) -> None:
    cluster = Cluster(policy)
    for index in range(30):
        cluster.tell(ev.ServerReported(server(f"s{index}", 4)))
    cluster.sync()
    before = encode_state(cluster.manager.state)
    for classified in (None, KNOWN, stories.like()):
        made = outlook(cluster.manager, stories.rate("w", 120.0), cluster.now, classified)
        assert made is not None
        assert len(made.others) <= MAX_ASKED
        told = shown(made, stories.rate("w", 120.0), Basis.TYPE, "by its type")
        assert told.chosen is not None or told.refusal
        assert len(told.others) <= 3
    assert encode_state(cluster.manager.state) == before


@given(
    taken=st.lists(st.integers(0, 8), min_size=1, max_size=6),
    per_second=st.floats(1.0, 3000.0),
    most=st.integers(1, 4),
    gang=st.booleans(),
)
def test_what_is_offered_has_room_and_is_offered_once(
    taken: list[int], per_second: float, most: int, gang: bool
) -> None:
    cluster = on_several(len(taken))
    for index, eighths in enumerate(taken):
        if eighths:
            filler = replace(workload(f"f{index}", 125 * eighths), target=None)
            cluster.tell(ev.WorkloadSubmitted(filler))
            running(cluster, f"f{index}")
    scaled = replace(KNOWN, servers={1: Estimate(1.0, 0.0), 4: Estimate(3.0, 0.1)})
    wanted = stories.rate("w", per_second, scale=Scale(max_servers=most, gang=gang))
    made = outlook(cluster.manager, wanted, cluster.now, scaled)
    assert made is not None
    view, offered = cluster.manager.view, set()
    for place in ([made.chosen] if made.chosen else []) + list(made.others):
        assert 1 <= len(place.placements) <= most
        for placement in place.placements:
            row = view.row(placement.server)
            free = view.cpu_capacity[row] - view.cpu_allocated[row]
            assert 0 < placement.allocation.cpu_millicpus <= free
        offered.add(place.placements)
    assert len(offered) == bool(made.chosen) + len(made.others)
