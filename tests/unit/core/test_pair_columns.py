"""What residents press that are known by pairs, server by server."""

from dataclasses import replace
from math import log

import numpy as np
import pytest

from tests.support.cluster import PLATFORM, Cluster, running, server, workload
from tests.support.courses import curve
from wharfinger.contention.exact import exact_profiles
from wharfinger.core import events as ev
from wharfinger.core.pair_columns import LEAST_KEPT, Member, PairColumns, members_of
from wharfinger.core.state import WorkloadRecord
from wharfinger.model.decisions import Prediction
from wharfinger.model.pairs import PairProfile
from wharfinger.model.platform import Platform, Server

PROFILES = exact_profiles("b", ["x", "y"], np.array([[0.5, 0.8], [0.9, 0.0]]))
X, Y = PROFILES["x"], PROFILES["y"]


def known(profile: PairProfile, **platforms: PairProfile):
    return curve((1000, 100.0), pairs={"": profile, **platforms})


def record(uid: int, profile: PairProfile, **others) -> WorkloadRecord:
    stated = others.pop("workload", workload(f"w{uid}"))
    return WorkloadRecord(stated, uid, 0.0, classification=known(profile), **others)


def test_a_server_has_the_sums_and_each_resident_what_the_others_leave_it():
    columns = PairColumns()
    columns.put(1, [Member("x", X, log(1.5), 0.01, log(0.9)), Member("y", Y, None)])
    view = columns.view(3)
    assert view.basis.tolist() == [-1, 0, -1]
    assert view.presses.tolist() == [[0, 0], [1, 1], [0, 0]]
    assert view.excludes.tolist() == [[0, 0], [1, 1], [0, 0]]
    assert list(view.names) == ["x"], "y has no target to keep"
    assert view.server.tolist()[:1] == [1]
    assert np.exp(view.pace[0]) == pytest.approx(1.5 * 0.8)
    assert view.pace_variance[0] == pytest.approx(0.01)
    assert view.least[0] == log(0.9)


def test_rows_of_those_who_go_are_free_again_and_zero_until_then():
    columns = PairColumns()
    columns.put(0, [Member("a", X, 0.0), Member("b", X, 0.0)])
    columns.put(1, [Member("c", X, 0.0)])
    columns.put(0, [])
    view = columns.view(2)
    assert view.server.tolist() == [-1, -1, 1]
    assert not view.suffers[:2].any()
    assert view.basis.tolist() == [-1, 0]
    columns.put(1, [Member("c", X, 0.0), Member("d", Y, 0.0)])
    assert list(columns.view(2).names) == ["c", "d", ""]


def test_a_row_that_goes_moves_those_behind_it_up():
    columns = PairColumns()
    for row in range(40):
        columns.put(row, [Member(f"r{row}", X if row % 2 else Y, 0.0)])
    columns.drop(3)
    columns.drop(0)
    view = columns.view(38)
    for row, name in enumerate(["r1", "r2", "r4", *(f"r{i}" for i in range(5, 40))]):
        at = view.names.index(name)
        assert view.server[at] == row
        assert view.presses[row].tolist() == list((X if int(name[1:]) % 2 else Y).presses)
    assert "r0" not in view.names


def test_a_wider_basis_makes_room_for_itself():
    columns = PairColumns()
    columns.put(0, [Member("x", X, 0.0)])
    wide = PairProfile("wide", suffers=(1.0,) * 5, presses=(2.0,) * 5, excludes=(1.0,) * 3)
    columns.put(1, [Member("w", wide, 0.0)])
    view = columns.view(2)
    assert view.presses.tolist() == [[1, 0, 0, 0, 0], [2, 2, 2, 2, 2]]
    assert view.excludes.tolist() == [[1, 0, 0], [1, 1, 1]]
    assert view.basis.tolist() == [0, 1]


def test_nobody_can_write_through_a_view():
    columns = PairColumns()
    columns.put(0, [Member("x", X, 0.0)])
    with pytest.raises(ValueError, match="read-only"):
        columns.view(1).presses[0] = 1.0


def test_the_newest_resident_says_in_which_basis_a_server_is_known():
    old, new = record(1, replace(X, basis="old")), record(2, X)
    assert [member.name for member in members_of([new, old], "any")] == ["w2"]
    assert [member.name for member in members_of([record(3, Y), new], "any")] == ["w2", "w3"]


def test_a_resident_keeps_its_target_less_its_tolerance_from_what_it_does_alone():
    predicted = Prediction(1.2, 1.1, 1.3, 0.8, alone=1.4, alone_std=0.1)
    wanted = replace(workload("w"), tolerance=0.2)
    member = members_of([record(1, X, workload=wanted, predicted=predicted)], "any")[0]
    assert (member.pace, member.pace_variance) == (log(1.4), pytest.approx(0.01))
    assert member.least == pytest.approx(log(0.8))
    unknown = members_of([record(1, X, workload=wanted)], "any")[0]
    assert (unknown.pace, unknown.least) == (0.0, pytest.approx(log(0.8)))
    careless = members_of([record(1, X, workload=replace(wanted, tolerance=1.0))], "any")[0]
    assert careless.least == log(LEAST_KEPT)
    best_effort = workload("w", best_effort=True)
    assert members_of([record(1, X, workload=best_effort)], "any")[0].pace is None


def placed(cluster: Cluster, name: str, profile: PairProfile, **others) -> None:
    cluster.tell(ev.WorkloadSubmitted(workload(name, profile=True)))
    key = cluster.key(name)
    cluster.tell(ev.WorkloadClassified(key, known(profile, **others)))
    running(cluster, name)


def test_nothing_is_kept_until_somebody_is_known_by_pairs():
    cluster = Cluster()
    cluster.tell(ev.ServerReported(server("s")))
    cluster.sync()
    cluster.tell(ev.WorkloadSubmitted(workload("w")))
    assert cluster.manager.view.pairs is None
    placed(cluster, "p", X)
    assert list(cluster.manager.view.pairs.names) == ["p"]


def test_columns_follow_those_who_come_and_go_and_their_server():
    cluster = Cluster()
    for name in ("s0", "s1"):
        cluster.tell(ev.ServerReported(server(name, 4)))
    cluster.sync()
    for name, profile in (("a", X), ("b", Y), ("c", X)):
        placed(cluster, name, profile)
    cluster.check_books()
    first = cluster.record("a").placements[0].server
    other = Platform("other", PLATFORM.architecture, "", 64_000, 2**40)
    cluster.tell(ev.ServerReported(Server(first, other, 4000, 2**40)))
    cluster.check_books()
    cluster.tell(ev.ServerLeft(first, "unplugged"))
    cluster.check_books()
    assert (cluster.manager.view.pairs.basis >= 0).sum() == 1
    cluster.tell(ev.ServerReported(server(first, 4)))
    cluster.check_books()
    assert (cluster.manager.view.pairs.basis >= 0).all()
    for name in ("a", "b", "c"):
        cluster.tell(ev.WorkloadFinished(cluster.key(name), 0, None, "exited"))
        cluster.check_books()
    assert not (cluster.manager.view.pairs.basis >= 0).any()
