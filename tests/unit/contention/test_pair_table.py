"""What residents that are known by pairs exert and suffer, server by server."""

from dataclasses import replace
from math import log

import numpy as np
import pytest

from tests.support.courses import curve
from tests.support.exact_profiles import exact_profiles
from wharfinger.contention.pair_table import MIN_KEPT, PairResident, PairRows, pair_residents
from wharfinger.core.seams.contention import Resident
from wharfinger.model.decisions import Prediction
from wharfinger.model.pairs import PairProfile

PROFILES = exact_profiles("b", ["x", "y"], np.array([[0.5, 0.8], [0.9, 0.0]]))
X, Y = PROFILES["x"], PROFILES["y"]


def resident(uid: int, profile: PairProfile, **others) -> Resident:
    best_effort, tolerance = others.pop("best_effort", False), others.pop("tolerance", 0.0)
    known = curve((1000, 100.0), pairs={"": profile})
    return Resident(f"w{uid}", uid, known, best_effort, tolerance, **others)


def test_a_server_has_the_sums_and_each_resident_what_the_others_leave_it():
    rows = PairRows()
    rows.put_pairs(1, [PairResident("x", X, log(1.5), 0.01, log(0.9)), PairResident("y", Y, None)])
    assert rows.basis[:3].tolist() == [-1, 0, -1]
    assert rows.pressure[:3].tolist() == [[0, 0], [1, 1], [0, 0]]
    assert rows.kinds[:3].tolist() == [[0, 0], [1, 1], [0, 0]]
    assert list(rows.names) == ["x"], "y has no target to keep"
    assert rows.server.tolist()[:1] == [1]
    performance, variance, kept, drop, _ = rows.kept[0].tolist()
    assert np.exp(performance) == pytest.approx(1.5 * 0.8)
    assert variance == pytest.approx(0.01)
    assert kept == log(0.9)
    assert np.exp(-drop) == rows.slowdown_of(1, "x").mean == pytest.approx(0.8)
    assert rows.slowdown_of(1, "y") is None
    assert rows.slowdown_of(0, "x") is None


def test_rows_of_those_who_go_are_free_again_and_zero_until_then():
    rows = PairRows()
    rows.put_pairs(0, [PairResident("a", X, 0.0), PairResident("b", X, 0.0)])
    rows.put_pairs(1, [PairResident("c", X, 0.0)])
    rows.put_pairs(0, [])
    assert rows.server[:3].tolist() == [-1, -1, 1]
    assert not rows.sensitivity[:2].any()
    assert rows.basis[:2].tolist() == [-1, 0]
    rows.put_pairs(1, [PairResident("c", X, 0.0), PairResident("d", Y, 0.0)])
    assert rows.names == ["c", "d", ""]


def test_a_row_that_goes_moves_those_behind_it_up():
    rows = PairRows()
    for row in range(40):
        rows.put_pairs(row, [PairResident(f"r{row}", X if row % 2 else Y, 0.0)])
    rows.drop(3)
    rows.drop(0)
    for row, name in enumerate(["r1", "r2", "r4", *(f"r{i}" for i in range(5, 40))]):
        at = rows.names.index(name)
        assert rows.server[at] == row
        assert rows.pressure[row].tolist() == list((X if int(name[1:]) % 2 else Y).presses)
    assert "r0" not in rows.names


def test_a_wider_basis_makes_room_for_itself():
    rows = PairRows()
    rows.put_pairs(0, [PairResident("x", X, 0.0)])
    wide = PairProfile("wide", suffers=(1.0,) * 5, presses=(2.0,) * 5, excludes=(1.0,) * 3)
    rows.put_pairs(1, [PairResident("w", wide, 0.0)])
    assert rows.pressure[:2].tolist() == [[1, 0, 0, 0, 0], [2, 2, 2, 2, 2]]
    assert rows.kinds[:2].tolist() == [[1, 0, 0], [1, 1, 1]]
    assert rows.basis[:2].tolist() == [0, 1]


def test_the_newest_resident_says_in_which_basis_a_server_is_known():
    old, new = resident(1, replace(X, basis="old")), resident(2, X)
    assert [one.name for one in pair_residents([old, new], "any")] == ["w2"]
    assert [one.name for one in pair_residents([new, resident(3, Y)], "any")] == ["w2", "w3"]
    assert pair_residents([new], None) == [], "the server has left"


def test_a_resident_keeps_its_target_less_its_tolerance_from_what_it_does_alone():
    predicted = Prediction(1.2, 1.1, 1.3, 0.8, alone=1.4, alone_std=0.1)
    one = pair_residents([resident(1, X, tolerance=0.2, predicted=predicted)], "any")[0]
    assert (one.performance, one.variance) == (log(1.4), pytest.approx(0.01))
    assert one.kept == pytest.approx(log(0.8))
    unknown = pair_residents([resident(1, X, tolerance=0.2)], "any")[0]
    assert (unknown.performance, unknown.kept) == (0.0, pytest.approx(log(0.8)))
    careless = pair_residents([resident(1, X, tolerance=1.0)], "any")[0]
    assert careless.kept == log(MIN_KEPT)
    assert pair_residents([resident(1, X, best_effort=True)], "any")[0].performance is None


def test_what_residents_press_together_is_a_profile_as_wide_as_its_basis():
    rows = PairRows()
    doubtful = replace(X, presses_variance=(0.1, 0.0))
    rows.put_pairs(0, [PairResident("a", doubtful, 0.0), PairResident("b", Y, None)])
    wide = PairProfile("wide", (0.0,) * 5, (1.0,) * 5)
    rows.put_pairs(2, [PairResident("c", wide, 0.0)])
    found = rows.pressure_on(0)
    assert (found.basis, found.presses, found.presses_variance) == ("b", (1.0, 1.0), (0.1, 0.0))
    assert rows.pressure_on(2).presses == wide.presses
    assert X.beside(found).mean == pytest.approx(X.beside(X, Y).mean)
    assert rows.pressure_on(1) is rows.pressure_on(9) is None
