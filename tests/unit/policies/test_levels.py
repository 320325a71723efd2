"""When what runs has left its level: noise, neighbors and load are no reason."""

from dataclasses import replace
from random import Random

from tests.support.cluster import workload
from wharfinger.core.lifecycle import Phase
from wharfinger.core.state import WorkloadRecord
from wharfinger.core.tracking import ProbeCause, ProbeState
from wharfinger.model.allocation import Allocation, Placement
from wharfinger.model.performance import Performance, Quantity, Reading
from wharfinger.model.profile import Classification, Curve, Estimate
from wharfinger.policies.adaptation.levels import has_just_changed, level_of
from wharfinger.policies.adaptation.phase_settings import LevelSettings

SETTINGS = LevelSettings()
EVERY = 5.0


def record() -> WorkloadRecord:
    placements = (Placement("s", Allocation(1000, 1)),)
    return WorkloadRecord(
        workload("w"), 1, 0.0, Phase.RUNNING, key="k", placements=placements, started_at=0.0
    )


def look(
    of: WorkloadRecord,
    now: float,
    value: float,
    quantity: Quantity = Quantity.RATE,
    cpu: float = 1,
    slowdown: Estimate | None = None,
) -> bool:
    """Whether this measurement shows that it has left its level."""
    readings = {quantity: Reading(value, "t"), Quantity.CPU: Reading(cpu, "t")}
    of.performance = Performance(now, readings, {})
    of.level = level_of(of, now, SETTINGS, slowdown)
    return has_just_changed(of, now)


def alarms(of: WorkloadRecord, values: list[float], begin: float = 20.0) -> list[int]:
    return [n for n, value in enumerate(values) if look(of, begin + EVERY * n, value)]


def test_noise_alone_is_hardly_ever_a_reason() -> None:
    random = Random(5)
    values = [100 * random.lognormvariate(0, 0.03) for _ in range(20_000)]
    assert len(alarms(record(), values)) <= 4


def test_a_large_change_is_seen_at_the_first_measurement_and_a_small_one_soon() -> None:
    random = Random(7)
    for share, most in ((0.6, 1), (1.8, 1), (0.8, 4)):
        for _ in range(50):
            values = [100 * random.lognormvariate(0, 0.03) for _ in range(12)]
            values += [100 * share * random.lognormvariate(0, 0.03) for _ in range(12)]
            seen = alarms(record(), values)
            assert seen[:1] and 12 <= seen[0] < 12 + most, (share, seen)


def test_the_next_change_counts_from_the_new_level() -> None:
    assert alarms(record(), [100.0] * 8 + [50.0] * 8 + [100.0] * 8) == [8, 16]


def test_a_neighbor_that_came_makes_a_new_level() -> None:
    one = record()
    assert not alarms(one, [100.0] * 8)
    one.neighbors_changed_at = 60.0
    assert not alarms(one, [60.0] * 8, begin=61.0)
    assert look(one, 105.0, 30.0), "but a change among neighbors is seen"


def test_what_a_neighbor_is_predicted_to_do_is_no_phase() -> None:
    """Performance falls to a third as a neighbor comes that is predicted to halve it."""
    alone, beside = Estimate(1.0, 0.0), Estimate(0.5, 0.2)
    for known, alarmed in ((True, False), (False, True)):
        one = record()
        for n in range(8):
            look(one, 20 + EVERY * n, 100.0, slowdown=alone if known else None)
        one.neighbors_changed_at = 56.0
        after = beside if known else None
        assert not look(one, 60.0, 33.0, slowdown=after)
        assert look(one, 70.0, 33.0, slowdown=after) is alarmed


def test_what_a_neighbor_did_not_do_is_a_phase() -> None:
    """One came that is predicted to halve it for certain, and it is as before."""
    one = record()
    for n in range(8):
        look(one, 20 + EVERY * n, 100.0, slowdown=Estimate(1.0, 0.0))
    one.neighbors_changed_at = 56.0
    look(one, 60.0, 100.0, slowdown=Estimate(0.5, 0.02))
    assert look(one, 70.0, 100.0, slowdown=Estimate(0.5, 0.02))


def test_more_cpu_is_no_phase_whether_it_helps_or_not() -> None:
    """Its curve says that twice the CPU gives three times as much, or nothing."""
    for threefold in (True, False):
        for factor, alarmed in ((1.0, False), (2.0, False), (3.0, not threefold), (0.5, True)):
            one = record()
            points = {
                1000: Estimate(100.0, 0.1),
                2000: Estimate(300.0 if threefold else 100.0, 0.1),
            }
            curve = Curve(tuple(points), tuple(points.values()))
            one.classification = Classification("hand", "1", curves={Quantity.RATE: curve})
            assert not alarms(one, [100.0] * 8)
            one.placements = (Placement("s", Allocation(2000, 1)),)
            one.adjusted_at = 60.0
            look(one, 65.0, 100.0 * factor)
            assert look(one, 75.0, 100.0 * factor) is alarmed, (threefold, factor)


def test_a_small_change_is_known_to_have_begun_before_it_was_found() -> None:
    one = record()
    assert not alarms(one, [100.0] * 8)
    (found,) = alarms(one, [88.0] * 8, begin=60.0)
    assert found > 0
    assert one.level is not None
    assert one.level.changes_since == 60.0


def test_a_spike_of_load_leaves_a_service_at_its_level() -> None:
    one = record()
    for n in range(30):
        busy = 0.3 if n < 15 else 0.9
        assert not look(one, 20 + EVERY * n, 1000 * busy, Quantity.THROUGHPUT, cpu=busy)
    assert look(one, 200.0, 400.0, Quantity.THROUGHPUT, cpu=0.9), "each query takes more now"


def test_a_source_beside_it_lowers_no_level() -> None:
    one = record()
    alarms(one, [100.0] * 8)
    one.probe = ProbeState(1, 58.0, ProbeCause.PREEMPTIVE, (), 0.05)
    assert not alarms(one, [80.0] * 4, begin=60.0)
    one.probe = replace(one.probe, answered_at=80.0)
    assert not alarms(one, [100.0] * 8, begin=81.0)


def test_a_level_is_of_all_servers_together() -> None:
    one = record()
    one.placements = tuple(Placement(each, Allocation(1000, 1)) for each in ("s", "t"))
    assert alarms(one, [100.0] * 8 + [50.0] * 8) == [8]
    assert one.level is not None and one.level.cpu_millicpus == 2000
    one.placements = (*one.placements, Placement("u", Allocation(1000, 1)))
    one.adjusted_at = 110.0
    assert not alarms(one, [75.0] * 8, begin=111.0), "in proportion, with one server more"
