"""Whose phase it is, of residents that change together."""

from dataclasses import replace
from typing import cast

from tests.unit.policies.test_levels import record
from wharfinger.core.seams.adaptation import Residents
from wharfinger.core.state import WorkloadRecord
from wharfinger.core.tracking import LevelTracking
from wharfinger.policies.adaptation.learning import Learning
from wharfinger.policies.adaptation.phase_settings import PhaseSettings
from wharfinger.policies.adaptation.phases import Phases
from wharfinger.policies.adaptation.slack import TargetSettings

PHASES = Phases(PhaseSettings(), Learning(TargetSettings()))


def changed(at: float, shift: float, since: float) -> WorkloadRecord:
    level = LevelTracking(4.0, 3, 0.03, changed_at=at, shift=shift, changes_since=since)
    one = replace(record())
    one.level = level
    return one


class Beside:
    """A server with one neighbor."""

    def __init__(self, neighbor: WorkloadRecord) -> None:
        self._neighbor = neighbor

    def neighbors(self, _record: WorkloadRecord) -> list[WorkloadRecord]:
        return [self._neighbor]


def is_its_own(own: WorkloadRecord, neighbor: WorkloadRecord, now: float = 100.0) -> bool:
    return PHASES.has_changed(now, own, cast("Residents", Beside(neighbor)))


def test_a_small_change_that_began_with_a_neighbors_large_one_is_the_neighbors() -> None:
    small = changed(100.0, -0.12, since=90.0)
    assert not is_its_own(small, changed(90.0, -0.4, since=90.0))
    assert is_its_own(small, changed(75.0, -0.4, since=75.0)), "long before"
    assert is_its_own(small, changed(90.0, -0.1, since=90.0)), "it changes most itself"


def test_what_was_found_before_now_is_no_news() -> None:
    assert not is_its_own(changed(95.0, -0.4, since=95.0), changed(20.0, -0.1, since=20.0))


def test_a_neighbor_that_was_resized_as_it_began_is_why_unless_the_change_is_large() -> None:
    neighbor = changed(20.0, -0.1, since=20.0)
    neighbor.adjusted_at = 92.0
    assert not is_its_own(changed(100.0, -0.2, since=95.0), neighbor)
    assert is_its_own(changed(100.0, -0.5, since=95.0), neighbor)
    neighbor.adjusted_at = 50.0
    assert is_its_own(changed(100.0, -0.2, since=95.0), neighbor), "long before"
