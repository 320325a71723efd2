"""Best-effort work beside a target is phased out at once, and phased in step by step."""

from dataclasses import replace
from itertools import pairwise

import pytest

from tests.support.cluster import Cluster
from tests.support.courses import PERIOD_SECONDS, filler, made, of, phase, start, wants
from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.core.lifecycle import Phase
from wharfinger.core.state import AdjustmentKind
from wharfinger.model.allocation import ceiling_of
from wharfinger.model.decisions import ReasonCode
from wharfinger.model.performance import Quantity, Reading, Sample
from wharfinger.model.view import Capabilities, Resize
from wharfinger.model.workload import Adapt

CPUS = 2
ALL = CPUS * 1000
LEAST = ALL // 20


def _cluster(able: Capabilities | None = None) -> Cluster:
    others = {} if able is None else {"able": able}
    return made("feedback", CPUS, phases_in=True, **others)


def _ceiling(cluster: Cluster, name: str = "f") -> int | None:
    return ceiling_of(cluster.record(name).placements)


def _measure(cluster: Cluster, rate: float, fillers: float = 2.0) -> list[act.ResizeAllocation]:
    """A period; what is asked of the engine is done at once. Fillers use so many CPUs at most."""
    cluster.now += PERIOD_SECONDS
    samples = []
    for name in ("w", "f", "g"):
        if not cluster.manager.knows(name):
            continue
        record = cluster.record(name)
        used, most = fillers, ceiling_of(record.placements)
        used = used if most is None else min(used, most / 1000)
        readings = {Quantity.CPU: Reading(2.0 if name == "w" else used, "", trusted=False)}
        if name == "w":
            readings[Quantity.RATE] = Reading(rate, "progress lines")
        samples.append(Sample(record.key, readings))
    asked = list(cluster.tell(ev.ServerMeasured("a", tuple(samples))).actions)
    resized = of(act.ResizeAllocation, asked)
    for action in resized:
        cluster.tell(ev.AllocationResized(action.key, action.placements))
    cluster.check_books()
    return resized


def _until_violated(cluster: Cluster, rate: float = 80) -> None:
    while _ceiling(cluster) != LEAST:
        _measure(cluster, rate)


def test_it_gets_a_low_ceiling_at_once() -> None:
    cluster = _cluster()
    start(cluster, wants(), filler("f"))
    assert _ceiling(cluster) is None
    _until_violated(cluster)
    assert phase(cluster, "f") is Phase.RUNNING
    record = cluster.record("f")
    why = record.decisions[-1].decision
    assert why.reason is ReasonCode.THROTTLED_FOR_TARGET
    assert why.message.startswith("w has violated its target at 80%")
    assert why.message.endswith("best-effort f may use 0.1 CPU from now on")
    assert record.adjustments[-1].kind is AdjustmentKind.THROTTLED
    assert cluster.record("w").adjustments[-1].kind is AdjustmentKind.RELIEVED
    assert (record.throttles, record.throttled_from_millicpus) == (1, 2000)


def test_it_is_suspended_where_the_least_is_still_too_much() -> None:
    cluster = _cluster()
    start(cluster, wants(), filler("f"))
    _until_violated(cluster)
    _measure(cluster, 86)
    _measure(cluster, 86)
    assert phase(cluster, "f") is Phase.SUSPENDED
    _measure(cluster, 86)
    _measure(cluster, 86)
    assert phase(cluster, "f") is Phase.RUNNING, "that was ineffective"
    _measure(cluster, 86)
    assert _ceiling(cluster) is None, "nor is it held back any more"
    for _ in range(10):
        _measure(cluster, 86)
    assert _ceiling(cluster) is None


def test_the_busiest_is_phased_out_first() -> None:
    cluster = _cluster()
    start(cluster, wants(), filler("f"), filler("g"))
    _measure(cluster, 80)
    _measure(cluster, 80)
    assert [_ceiling(cluster, name) for name in ("f", "g")] == [None, LEAST], "of equals the newest"
    for rate in (84, 84, 84, 84):
        _measure(cluster, rate)
    assert [_ceiling(cluster, name) for name in ("f", "g")] == [LEAST, LEAST]


def test_it_is_phased_in_by_doubling_and_then_by_steps_of_which_each_takes_longer() -> None:
    cluster = _cluster()
    start(cluster, wants(), filler("f"))
    _until_violated(cluster)
    seen = [_ceiling(cluster)]
    changed = [cluster.now]
    while seen[-1] is not None:
        if _measure(cluster, 100):
            seen.append(_ceiling(cluster))
            changed.append(cluster.now)
    # It used two CPUs when that was too much: 1.4 are taken for safe.
    assert seen == [100, 200, 400, 800, 1400, 1600, 1800, None]
    steps = [after - before for before, after in pairwise(changed)]
    assert steps == [20, 20, 20, 20, 30, 30, 30]
    _until_violated(cluster)
    changed = [cluster.now]
    while len(changed) < 7:
        if _measure(cluster, 100):
            changed.append(cluster.now)
    steps = [after - before for before, after in pairwise(changed)]
    assert steps == [20, 20, 20, 20, 60, 60], "for twice as long after the second time"


@pytest.mark.long
def test_what_was_too_much_is_not_tried_again_soon() -> None:
    """A load that leaves room for one CPU of best-effort work: how often is it too much?"""
    cluster = _cluster()
    start(cluster, wants(), filler("f"))
    least, violated = 0, 0
    for _ in range(2000):
        most = _ceiling(cluster)
        used = 2000 if most is None else most
        violated += used > 1000
        before = cluster.record("f").throttles
        _measure(cluster, 80 if used > 1000 else 100)
        least += cluster.record("f").throttles > before
    assert violated < 0.06 * 2000
    assert 2 < least < 20


def test_nothing_is_given_back_beside_one_that_misses_its_target() -> None:
    cluster = _cluster()
    start(cluster, wants(), filler("f"))
    _until_violated(cluster)
    for _ in range(3):
        _measure(cluster, 80)
    assert _ceiling(cluster) == LEAST


def test_the_core_wakes_to_give_back_and_a_replay_has_the_same() -> None:
    cluster = _cluster()
    start(cluster, wants(), filler("f"))
    _until_violated(cluster)
    _measure(cluster, 100)
    due = cluster.manager.wake_at(cluster.now)
    assert due == cluster.record("f").phase_since + 20
    replayed = cluster.replayed()
    assert replayed.wake_at(cluster.now) == due
    assert cluster.replayed(len(cluster.log)).wake_at(cluster.now) == due
    cluster.now = due
    (action,) = of(act.ResizeAllocation, list(cluster.tell(ev.TimePassed()).actions))
    assert ceiling_of(action.placements) == 2 * LEAST


@pytest.mark.parametrize("resize", [Resize.NONE, Resize.WITHIN_ALLOCATION])
def test_an_engine_that_cannot_suspends(resize: Resize) -> None:
    cluster = _cluster(Capabilities(resize=resize))
    start(cluster, wants(), filler("f"))
    _measure(cluster, 80)
    _measure(cluster, 80)
    assert phase(cluster, "f") is Phase.SUSPENDED
    assert _ceiling(cluster) is None


def test_its_user_may_forbid_it_and_it_gets_back_what_it_had() -> None:
    cluster = _cluster()
    start(cluster, wants(), replace(filler("f"), adapt=Adapt.OFF))
    for _ in range(4):
        _measure(cluster, 80)
    assert _ceiling(cluster) is None
    cluster = _cluster()
    start(cluster, wants(), filler("f"))
    _until_violated(cluster)
    cluster.tell(ev.WorkloadUpdated(replace(cluster.record("f").workload, adapt=Adapt.OFF)))
    _measure(cluster, 100)
    _measure(cluster, 100)
    assert _ceiling(cluster) == 2 * LEAST, "it gets back what it was given"
