"""Whose phase it is, of residents that change together; and what is profiled as it runs."""

from dataclasses import replace
from types import SimpleNamespace
from typing import cast

from tests.support.cluster import Cluster, server
from tests.unit.policies.test_levels import record
from wharfinger.core import events as ev
from wharfinger.core.lifecycle import Phase
from wharfinger.core.seams.adaptation import RaiseSources, Reclassify, Remedy, Residents
from wharfinger.core.state import WorkloadRecord
from wharfinger.core.tracking import LevelTracking, ProbeCause, ProbeState
from wharfinger.model.allocation import Allocation, Placement
from wharfinger.model.interference import SharedResource as R
from wharfinger.model.performance import Sample
from wharfinger.model.profile import Classification, Entry, Estimate, Measurements, Origin
from wharfinger.model.view import Capabilities, View
from wharfinger.model.workload import Profile, ProfileMode
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


class Alone:
    """One server, where a workload runs that may not be copied; what is asked for is answered."""

    def __init__(self, record: WorkloadRecord, able: Capabilities, *, neighbors: int = 0) -> None:
        self.estimates = "test"
        self.state = SimpleNamespace(capabilities=able)
        self._record, self._neighbors = record, [record] * neighbors
        cluster = Cluster(able=able)
        cluster.tell(ev.ServerReported(server("s", 2)))
        self._view = cluster.manager.view

    def running(self, _key: str) -> WorkloadRecord:
        return self._record

    def may_adjust(self, _record: WorkloadRecord) -> bool:
        return True

    def neighbors(self, _record: WorkloadRecord) -> list[WorkloadRecord]:
        return self._neighbors

    def view(self, _workload: object = None) -> View:
        return self._view

    def platform_of(self, _record: WorkloadRecord) -> str:
        return ""


def live_record(name: str = "w") -> WorkloadRecord:
    one = replace(record())
    one.workload = replace(one.workload, name=name, profile=Profile(ProfileMode.LIVE))
    one.placements = (Placement("s", Allocation(1000, 1 << 20)),)
    one.classification = Classification("test", "1", tolerated={R.INTEGER: Estimate(50.0, 1.0)})
    one.level = LevelTracking(4.0, 3, 0.03)
    one.phase = Phase.RUNNING
    return one


def asked_of(cluster: Alone, now: float = 100.0) -> list[Remedy]:
    event = ev.ServerMeasured("s", (Sample("w.1", {}),))
    return list(PHASES.follow(now, event, cast("Residents", cluster)))


ENGINES = (R.INTEGER, R.TLB, R.STORAGE_BANDWIDTH)
LIVE = Capabilities(probes_running=True, sources=ENGINES)


def test_what_may_not_be_copied_gets_its_first_scores_as_it_runs() -> None:
    drawn = set()
    for number in range(20):
        (raised,) = asked_of(Alone(live_record(f"w{number}"), LIVE))
        assert isinstance(raised, RaiseSources)
        assert raised.cause is ProbeCause.PROFILE
        assert not raised.placements, "where it runs"
        drawn |= set(raised.sources)
    assert drawn >= {R.TLB, R.STORAGE_BANDWIDTH}, "of the other one much is known"


def test_beside_neighbors_only_sources_of_its_cores_rise() -> None:
    (raised,) = asked_of(Alone(live_record(), LIVE, neighbors=1))
    assert isinstance(raised, RaiseSources)
    assert set(raised.sources) == {R.INTEGER, R.TLB}
    sharing = replace(LIVE, shares_cores=True)
    assert not asked_of(Alone(live_record(), sharing, neighbors=1))


def test_scores_that_were_told_are_not_asked_for_again() -> None:
    one = live_record()
    cluster = Alone(one, LIVE)
    told = Measurements(tolerated={R.TLB: Entry(40.0, origin=Origin.OBSERVED)})
    one.probe = ProbeState(1, 10.0, ProbeCause.PROFILE, (R.TLB,), 0.05, answered_at=20.0)
    assert asked_of(cluster), "it was refused"
    assert not asked_of(cluster, now=30.0), "not at once"
    one.probe = replace(one.probe, answer=told)
    assert not asked_of(cluster)
    probed = ev.WorkloadProbed("w.1", 1, told)
    (again,) = PHASES.follow(100.0, probed, cast("Residents", cluster))
    assert isinstance(again, Reclassify)
    assert again.measurements.tolerated == told.tolerated


def test_on_several_servers_a_copy_of_one_part_is_probed() -> None:
    """A source beside one part slows a part of the whole only, and tells little."""
    one = live_record()
    one.workload = replace(one.workload, profile=Profile())
    one.placements = tuple(Placement(each, Allocation(1000, 1 << 20)) for each in ("s", "t"))
    one.level = LevelTracking(4.0, 3, 0.03, changed_at=100.0, shift=-0.5)
    able = replace(LIVE, clones=True)
    (raised,) = asked_of(Alone(one, able))
    assert isinstance(raised, RaiseSources)
    assert raised.placements == (Placement("s", Allocation(1000, 1 << 20)),)
    (alone,) = asked_of(Alone(one, LIVE))
    assert isinstance(alone, Reclassify), "by its level alone, where nothing can be copied"
