"""Contention of whole sets: what is asked is what the model predicts of the set that would be."""

from dataclasses import replace
from math import exp, inf, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.cluster import server, workload
from tests.support.courses import curve
from wharfinger.contention.by_set import BySet, SetSettings
from wharfinger.core.seams.contention import ContentionTable, Resident
from wharfinger.core.tables import ServerTable
from wharfinger.errors import InvalidInput
from wharfinger.interference.measurements import (
    ContentionMeasurements,
    ContentionSetting,
    MeasuredSet,
)
from wharfinger.interference.model import InterferenceModel
from wharfinger.model.view import Capabilities, Request
from wharfinger.model.workload import Workload
from wharfinger.policies.placement.pythia import Packing, Pythia, PythiaSettings

SINGLES = {"calm": 0.99, "loud": 0.93, "web": 0.97}
SERVICE = ContentionSetting("web")


def fitted() -> InterferenceModel:
    rows = [MeasuredSet(SERVICE, (name,), kept, 1e-4) for name, kept in SINGLES.items()]
    return InterferenceModel.fit("product", ContentionMeasurements.of(rows))


def of(program: str, name: str) -> Workload:
    return replace(workload(name), labels={"program": program})


def residents(programs: list[str], row: int = 0, tolerance: float = 0.1) -> list[Resident]:
    return [
        Resident(
            f"r{row}.{at}",
            at,
            curve((1000, 1.0)),
            program != "web",
            tolerance,
            workload=of(program, f"r{row}.{at}"),
        )
        for at, program in enumerate(programs)
    ]


def asked(crowds: list[list[str]], program: str, confidence: float = 0.5):
    columns, table = ServerTable(), BySet(fitted=fitted()).table()
    for row, crowd in enumerate(crowds):
        columns.put(server(f"s{row}"))
        table.put(row, "test", residents(crowd, row))
    request = Request(of(program, "new"))
    return table.assess(request, columns.view(Capabilities()), confidence), table, columns, request


CROWDS = st.lists(st.lists(st.sampled_from([*SINGLES]), max_size=4), min_size=1, max_size=4)


@given(CROWDS, st.sampled_from([*SINGLES]))
def test_headroom_is_what_the_service_with_the_least_has_left(crowds, program):
    found, *_ = asked(crowds, program)
    assert found.headroom is not None
    for row, crowd in enumerate(crowds):
        left = inf
        for at, name in enumerate(crowd):
            if name == "web":
                others = [*crowd[:at], *crowd[at + 1 :], program]
                kept = sum(log(SINGLES[other]) for other in others) - log(0.9)
                left = min(left, kept)
        expected = 1 - exp(-left) if left < inf else 1.0
        assert found.headroom[row] == pytest.approx(expected, abs=1e-6)


@given(CROWDS, CROWDS)
def test_a_table_is_what_was_put_last(before, after):
    _, table, columns, request = asked(after, "loud")
    _, other, *_ = asked(before, "calm")
    for row in range(len(after)):
        other.put(row, "test", residents(after[row], row))
    for row in reversed(range(len(after), len(before))):
        other.drop(row)
    view = columns.view(Capabilities())
    one, two = (each.assess(request, view, 0.8) for each in (table, other))
    assert np.array_equal(one.headroom, two.headroom)
    assert np.allclose(one.residents_loss().targets, two.residents_loss().targets)


def test_sets_that_are_no_more_are_forgotten(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("wharfinger.contention.by_set.MOST_SETS", -60)
    found, table, columns, request = asked([["web", "loud"], ["web"]], "calm")
    before = found.headroom
    for crowd in (
        ["web", "calm"],
        ["web", "calm", "calm"],
        ["web", "loud", "loud"],
        ["web", "loud"],
    ):
        table.put(0, "test", residents(crowd))
    assert len(table.groups.keys) <= 4
    again = table.assess(request, columns.view(Capabilities()), 0.5).headroom
    assert np.array_equal(before, again)


def test_what_is_unknown_is_unsafe():
    found, *_ = asked([["web"], ["web", "stranger"], ["stranger"]], "calm")
    assert found.headroom is not None
    assert found.headroom[0] > 0
    assert found.headroom[1] == -inf
    assert found.headroom[2] == 1
    assert found.refusal(1) == "what stranger does to r1.0 is unknown"
    strange, *_ = asked([["web"]], "stranger")
    assert not strange.informed
    assert strange.headroom is not None
    assert strange.headroom[0] == -inf
    assert strange.residents_loss().targets[0] == pytest.approx(1)


def test_a_service_is_slowed_by_all_that_are_there():
    found, table, *_ = asked([["loud", "calm"]], "web")
    assert exp(-found.suffered.mean[0]) == pytest.approx(0.93 * 0.99, rel=1e-4)
    table.put(0, "test", residents(["web", "loud", "loud"]))
    slowed = table.slowdown_of(0, "r0.0")
    assert slowed is not None
    assert slowed.mean == pytest.approx(0.93**2, rel=1e-4)


def test_a_model_must_be_the_one_that_decided():
    named = BySet(SetSettings(model="m.json", digest="abc"))
    with pytest.raises(InvalidInput, match="restore that file"):
        named.with_model(fitted(), "def")
    assert named.with_model(fitted(), "abc").settings.digest == "abc"
    assert type(named.table()) is ContentionTable


def placed(
    crowds: list[list[str]], program: str, fit: Packing = Packing.BEST, confidence: float = 0.5
):
    _, table, columns, request = asked(crowds, program)
    there = np.array([len(crowd) for crowd in crowds])
    view = replace(columns.view(Capabilities()), contention=table, residents=there)
    return Pythia(PythiaSettings(fit, confidence)).place(request, view)


def test_work_goes_where_services_have_the_least_left_and_keep_their_targets():
    crowds = [["web"], ["web", "calm"], ["web", "loud"], [], ["calm"]]
    assert placed(crowds, "calm").placements[0].server == "s2"
    assert placed(crowds, "calm", Packing.FIRST).placements[0].server == "s0"
    assert placed(crowds, "calm", Packing.WORST).placements[0].server == "s0"
    assert placed(crowds, "loud").placements[0].server == "s1"
    assert placed([["web", "loud"], [], ["calm"]], "loud").placements[0].server == "s2"
    assert placed([["web", "loud"], []], "loud").placements[0].server == "s1"


def test_it_waits_where_every_server_has_a_service_that_would_miss_its_target():
    decision = placed([["web", "loud"], ["web", "loud", "calm"]], "loud").decision
    assert not decision.accepted
    assert decision.reason == "interference"
    assert "on s0: r0.0 would keep its target with" in decision.message
    assert "loud costs it most" in decision.message
    assert decision.candidates[0].numbers["service_kept_probability"] < 0.5
    assert "no service with a target" in placed([["calm"]], "loud").decision.message
