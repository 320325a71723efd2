"""Quasar's answers beside numbers worked by hand."""

from collections.abc import Mapping
from dataclasses import replace
from math import exp, log
from types import MappingProxyType

import numpy as np
import pytest

from tests.support.cluster import MIB, server, workload
from wharfinger.classification.axis import UNKNOWN_STD
from wharfinger.classification.prediction import (
    parts_of,
    reached_probability,
)
from wharfinger.contention.by_source import BySource
from wharfinger.core.seams.contention import Assessment, Resident
from wharfinger.core.tables import ServerTable
from wharfinger.model.allocation import Allocation, Placement
from wharfinger.model.decisions import Place, Prediction, ReasonCode, Refuse, Term
from wharfinger.model.interference import SharedResource
from wharfinger.model.performance import Quantity
from wharfinger.model.profile import Classification, Curve, Estimate, quantile
from wharfinger.model.view import ALL_REASONS, Capabilities, OffTarget, Request, Resize, View
from wharfinger.model.workload import (
    LatencyBound,
    Measure,
    OnMiss,
    Reservation,
    Target,
    Workload,
)
from wharfinger.policies.placement.quasar import Quasar, QuasarSettings
from wharfinger.policies.placement.sizing import SizingSettings, size, sizes

CACHE, INTEGER = SharedResource.LAST_LEVEL_CACHE, SharedResource.INTEGER
DISK = SharedResource.STORAGE_BANDWIDTH
Scores = Mapping[SharedResource, float]
NONE: Mapping = MappingProxyType({})
ABLE = Capabilities()


def known(
    std: float = 0.0,
    *,
    per_cpu: float = 100.0,
    up_to: int = 4000,
    tolerated: Scores = NONE,
    caused: Scores = NONE,
    score_std: float = 0.0,
    quantity: Quantity = Quantity.RATE,
    total: float | None = None,
) -> Classification:
    """A rate in proportion to CPU, so that each answer can be worked out by hand."""
    columns = tuple(cpu for cpu in (500, 1000, 2000, 4000) if cpu <= up_to)
    curve = Curve(columns, tuple(Estimate(per_cpu * cpu / 1000, std) for cpu in columns))
    scores = [
        {r: Estimate(s, score_std) for r, s in given.items()} for given in (tolerated, caused)
    ]
    return Classification(
        "hand",
        "1",
        {quantity: curve},
        tolerated=scores[0],
        caused=scores[1],
        total=total,
        scores_measured=True,
    )


def wants(rate: float = 100.0, **others) -> Workload:
    others = {"tolerance": 0.0, **others}
    return replace(workload("w"), target=Target(rate_per_second=rate), **others)


def view_of(
    *cpus: int,
    residents: Mapping[str, list[Classification]] = NONE,
    used: Mapping[str, int] = NONE,
    able: Capabilities = ABLE,
    unsettled: tuple[str, ...] = (),
) -> View:
    """Servers s0, s1, ... with so many CPUs, and who is there."""
    table = BySource().table()
    columns = ServerTable(table)
    for at, cpu in enumerate(cpus):
        name = f"s{at}"
        columns.put(server(name, cpu))
        columns.hold(Placement(name, Allocation(0, MIB)) for _ in residents.get(name, []))
        if name in used:
            columns.hold([Placement(name, Allocation(used[name], MIB))])
        there = enumerate(residents.get(name, []))
        table.put(at, "test", [Resident(f"r{uid}", uid, each, False, 0.0) for uid, each in there])
        columns.unsettle(name, unsettled=name in unsettled)
    return columns.view(able)


def at_ease(view: View, row: int, what: Classification) -> View:
    """With this resident there, which has a third more than its target asks for."""
    assert view.contention is not None
    resident = Resident("r0", 0, what, False, 0.05, Prediction(1.3, 1.2, 1.4, 0.8))
    view.contention.put(row, "test", [resident])
    return view


def test_a_faster_platform_takes_less_and_one_that_nobody_knows_is_doubted() -> None:
    view = replace(
        view_of(4, 4, 4), platform=np.array([0, 1, 2]), platforms=("usual", "fast", "new")
    )
    what = replace(known(), platform="usual", platforms={"fast": Estimate(2.0, 0.0)})
    usual_only = SizingSettings(idle_confidence=0.0)
    request = Request(wants(200.0), classification=what)
    sizing = size(request, view, Assessment(3), usual_only)
    assert sizing is not None
    usual, fast, new = sizing.cpu_millicpus.tolist()
    assert (usual, fast) == (2000, 1000)
    assert new == pytest.approx(2000 * exp(quantile(0.8) * UNKNOWN_STD), rel=0.03)
    assert sizing.normalized_on(1).mean == pytest.approx(1.0)
    assert given(place(view, wants(200.0), what)) == ("s1", 1000)
    assert sizing.best_probability == 1.0
    much = size(Request(wants(700.0), classification=what), view, Assessment(3))
    assert much is not None
    assert much.best_probability == 1.0, "the fast one reaches it"
    assert much.reached.tolist() == [False, True, False]


def place(view: View, wanted: Workload, what: Classification | None, **others):
    confidence, others_idle = others.pop("confidence", 0.8), others.pop("idle_confidence", 0.0)
    request = Request(wanted, classification=what, **others)
    # As where no CPU is idle, unless the test says otherwise.
    sizing = SizingSettings(confidence, idle_confidence=others_idle)
    return Quasar(QuasarSettings(sizing)).place(request, view)


def given(answer: Place | Refuse) -> tuple[str, int]:
    assert isinstance(answer, Place), answer.decision.message
    placement = answer.placements[0]
    return placement.server, placement.allocation.cpu_millicpus


# --- sizing -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("confidence", "cpu"),
    # 100/s on one CPU and in proportion: log(cpu / 1000) >= z * 0.2 with z = 0, 0.8416, 1.6449,
    # so 1000, 1183 and 1390 thousandths; sizes come in steps of 50.
    [(0.5, 1000), (0.8, 1200), (0.95, 1400)],
)
def test_the_least_cpu_that_reaches_the_target_with_the_confidence(confidence, cpu) -> None:
    answer = place(view_of(4), wants(), known(0.2), confidence=confidence)
    assert given(answer) == ("s0", cpu)
    predicted = answer.decision.predicted
    assert predicted.mean == pytest.approx(cpu / 1000)
    assert predicted.low >= 1
    assert predicted.low * predicted.high == pytest.approx(predicted.mean**2)


def test_of_two_servers_the_one_where_less_is_enough() -> None:
    """Beside one that causes 40 where 20 are tolerated, 5% are lost twice: 1.05 ** 2 is needed."""
    neighbour = known(caused={CACHE: 40.0})
    view = view_of(4, 4, residents={"s0": [neighbour]})
    assert given(place(view, wants(), known(tolerated={CACHE: 20.0}))) == ("s1", 1000)
    request = Request(wants(), classification=known(tolerated={CACHE: 20.0}))
    suffered = view.contention.assess(request, view, 0.8).suffered
    assert suffered.mean.tolist() == pytest.approx([-2 * log(0.95), 0.0])
    assert suffered.variance.tolist() == [0.0, 0.0]


def test_pressure_of_neighbours_is_made_up_for_by_cpu() -> None:
    view = view_of(4, residents={"s0": [known(caused={CACHE: 20.0})]})
    answer = place(view, wants(), known(tolerated={CACHE: 20.0}))
    assert given(answer) == ("s0", 1100), "1000 / 0.95 = 1053, in steps of 50"
    assert answer.decision.predicted.mean == pytest.approx(1.1 * 0.95)


def test_whole_cpus_where_there_are_no_others() -> None:
    able = Capabilities(fractional_cpu=False)
    assert given(place(view_of(4, able=able), wants(120), known())) == ("s0", 2000)
    assert sizes(4999, fractional=False).tolist() == [1000, 2000, 3000, 4000]


def test_sizes_stay_fine_where_servers_are_large() -> None:
    grid = sizes(256_000, fractional=True)
    assert grid[:3].tolist() == [50, 100, 150]
    assert grid[-1] == 256_000
    assert np.all(np.diff(grid) <= np.maximum(100, 0.05 * grid[:-1]))
    assert len(grid) < 400
    assert given(place(view_of(256), wants(5), known(), confidence=0.5)) == ("s0", 50)


def test_where_more_cpu_brings_nothing_no_more_is_given() -> None:
    """The curve ends at 1 CPU with 100/s: 110/s may be out of reach, and 1 CPU is the best."""
    answer = place(view_of(4), wants(110), known(0.2, up_to=1000))
    assert given(answer) == ("s0", 1000)
    assert "91% of the target are expected, which is kept with 32%" in (answer.decision.message)


def test_who_cannot_reach_its_target_runs_at_once_where_it_comes_nearest() -> None:
    answer = place(view_of(2, 4), wants(1000), known(0.1))
    assert given(answer) == ("s1", 3950)
    assert answer.decision.accepted
    assert answer.decision.reason is ReasonCode.WILL_MISS
    assert answer.decision.predicted.mean == pytest.approx(0.395)
    assert "out of reach" in answer.decision.message
    assert "40% of the target are expected" in answer.decision.message
    taken = place(view_of(2, 4, used={"s1": 3000}), wants(1000), known(0.1))
    assert given(taken) == ("s0", 1000), "what it states: it does not wait for the larger one"


def test_who_would_rather_not_run_than_miss_is_refused_with_the_same_numbers() -> None:
    strict = wants(1000, on_miss=OnMiss.REJECT)
    answer = place(view_of(2, 4), strict, known(0.1))
    assert isinstance(answer, Refuse)
    assert answer.decision.reason is ReasonCode.WILL_MISS
    assert answer.decision.predicted.mean == pytest.approx(0.4)
    assert "0% probability" in answer.decision.message
    assert "onMiss: run" in answer.decision.would_change
    assert isinstance(place(view_of(2, 4), strict, known(0.1), restarted=True), Place)
    reachable = wants(300, on_miss=OnMiss.REJECT)
    refusal = place(view_of(4, used={"s0": 3000}), reachable, known(0.1))
    assert refusal.decision.reason is ReasonCode.NO_ROOM, "it waits for what is taken now"


def test_where_none_is_sure_the_most_likely_comes_first_then_the_fastest() -> None:
    view = replace(view_of(1, 1, 1), platform=np.arange(3), platforms=("usual", "near", "far"))
    platforms = {"near": Estimate(0.9, 0.1), "far": Estimate(0.5, 0.1)}
    what = replace(known(0.1), platform="usual", platforms=platforms)
    ranked = place(view, wants(105.0), what).decision.candidates
    assert [each.server for each in ranked] == ["s0", "s1", "s2"]
    chances = [each.numbers["kept_probability"] for each in ranked]
    assert chances == sorted(chances, reverse=True)
    # Far out of reach all chances are nil: performance decides.
    ranked = place(view, wants(900.0), what).decision.candidates
    assert [each.server for each in ranked] == ["s0", "s1", "s2"]


def test_a_target_is_kept_within_its_tolerance() -> None:
    assert given(place(view_of(4), wants(tolerance=0.2), known())) == ("s0", 800)


def test_idle_cpu_is_given_for_more_certainty() -> None:
    """As much as 0.95 takes while half of the CPU is free; as much as 0.8 else."""
    surer = {"idle_confidence": 0.95}
    assert given(place(view_of(4), wants(), known(0.2), **surer)) == ("s0", 1400)
    used = view_of(4, used={"s0": 2100})
    assert given(place(used, wants(), known(0.2), **surer)) == ("s0", 1200)


def test_what_can_not_be_corrected_later_is_sized_as_surely_as_with_idle_cpu() -> None:
    fixed = view_of(4, used={"s0": 2100}, able=Capabilities(resize=Resize.NONE))
    answer = place(fixed, wants(), known(0.2), idle_confidence=0.95)
    assert given(answer) == ("s0", 1400)
    assert "with 95% confidence" in answer.decision.message
    assert answer.decision.numbers["confidence"] == 0.95


def test_contention_does_not_drive_it_to_a_server_where_its_target_is_lost() -> None:
    """Alone on the slow server it keeps nothing; beside a neighbor it may keep its target."""
    view = view_of(4, 4, residents={"s0": [known(tolerated={DISK: 20.0})]})
    view = replace(view, platform=np.array([0, 1]), platforms=("usual", "slow"))
    slow = {"slow": Estimate(0.2, 0.0)}
    what = replace(known(caused={DISK: 60.0}), platform="usual", platforms=slow)
    answer = place(view, wants(380.0), what)
    assert given(answer)[0] == "s0"
    assert "there a workload is slowed" in answer.decision.message


def test_one_that_has_only_waited_too_long_runs_late_rather_than_never() -> None:
    """1000 units within 20 s take 51/s; after 19 s nothing reaches that any more."""
    batch = replace(
        workload("w"),
        tolerance=0.0,
        target=Target(completion_seconds=20.0),
        measure=Measure(progress_total=1000.0),
    )
    assert given(place(view_of(4), batch, known())) == ("s0", 550)
    assert given(place(view_of(4), batch, known(), waited_seconds=10.0)) == ("s0", 1100)
    late = place(view_of(4), batch, known(), waited_seconds=19.0)
    assert given(late) == ("s0", 3950), "98% of what gives the most"
    assert late.decision.reason is ReasonCode.OK, "it was in reach"
    assert place(view_of(4), batch, known(per_cpu=1.0)).decision.reason is ReasonCode.WILL_MISS


def test_who_cannot_be_sure_of_its_target_takes_what_is_free_and_does_not_wait() -> None:
    """110/s may be out of reach with 1 CPU and doubt; without doubt 850 would give 85 of 85/s."""
    sure, unsure = known(0.0, up_to=1000), known(0.3, up_to=1000)
    assert given(place(view_of(1, used={"s0": 100}), wants(85), sure)) == ("s0", 850)
    answer = place(view_of(1, used={"s0": 100}), wants(85), unsure)
    assert given(answer) == ("s0", 900), "all that is free, though 1000 would give more"
    assert "which is kept with 58%, not 80%" in answer.decision.message
    half = place(view_of(1, used={"s0": 500}), wants(85), unsure)
    assert given(half) == ("s0", 500), "more than half of what would do without doubt"
    none = place(view_of(1, used={"s0": 600}), wants(85), unsure)
    assert none.decision.reason is ReasonCode.NO_ROOM
    assert "0.45 CPU" in none.decision.message
    # One server gives it without doubt, though it takes more of that.
    view = view_of(1, 4, used={"s0": 100})
    assert given(place(view, wants(85), known(0.3)))[0] == "s1"


def test_one_that_is_late_takes_what_is_free_if_that_would_have_done() -> None:
    batch = replace(
        workload("w"),
        tolerance=0.0,
        target=Target(completion_seconds=20.0),
        measure=Measure(progress_total=1000.0),
    )
    late = {"waited_seconds": 19.0}
    assert given(place(view_of(4, used={"s0": 1000}), batch, known(), **late)) == ("s0", 2950)
    assert isinstance(place(view_of(4, used={"s0": 3800}), batch, known(), **late), Refuse)


def test_the_part_of_a_target_that_is_least_sure_counts() -> None:
    latency = Curve((1000, 2000), (Estimate(0.02, 0.0), Estimate(0.01, 0.0)))
    what = known()
    what = replace(what, curves={**what.curves, Quantity.LATENCY: latency})
    both = Target(rate_per_second=100, latency=LatencyBound(99, 0.01))
    assert given(place(view_of(4), replace(workload("w"), tolerance=0.0, target=both), what)) == (
        "s0",
        2000,
    )


def serving(held: float = 80.0, std: float = 0.0, **others) -> Classification:
    """A service that could answer 100 a second with each CPU, and holds its bound up to less."""
    could = known(quantity=Quantity.THROUGHPUT)
    columns = could.curves[Quantity.THROUGHPUT].cpu_millicpus
    curve = Curve(columns, tuple(Estimate(held * cpu / 1000, std) for cpu in columns))
    curves = {**could.curves, Quantity.HELD: curve}
    return replace(could, curves=curves, held_below_seconds=0.1, **others)


def test_a_service_is_sized_by_the_load_that_it_holds_at_its_bound() -> None:
    bounded = Target(throughput_per_second=160, latency=LatencyBound(99, 0.1))
    answer = place(view_of(4), replace(workload("w"), tolerance=0.0, target=bounded), serving())
    assert given(answer) == ("s0", 2000)
    assert answer.decision.predicted is not None
    told = answer.decision.predicted.performance
    assert told[Term.THROUGHPUT].mean == pytest.approx(200.0), "it could do more"
    assert told[Term.LATENCY].mean == pytest.approx(0.1)
    unbounded = Target(throughput_per_second=160)
    assert given(
        place(view_of(4), replace(workload("w"), tolerance=0.0, target=unbounded), serving())
    ) == (
        "s0",
        1650,
    )


def test_a_bound_that_was_changed_and_a_load_that_is_only_known() -> None:
    tighter = Target(throughput_per_second=160, latency=LatencyBound(99, 0.05))
    answer = place(view_of(4), replace(workload("w"), tolerance=0.0, target=tighter), serving())
    assert given(answer) == ("s0", 2750), "60 of 100 are held: half the time to wait in"
    only = Target(latency=LatencyBound(99, 0.1))
    known_load = serving(asked_per_second=160.0)
    assert given(
        place(view_of(4), replace(workload("w"), tolerance=0.0, target=only), known_load)
    ) == ("s0", 2000)
    nobody_knows = place(view_of(4), replace(workload("w"), tolerance=0.0, target=only), serving())
    assert given(nobody_knows) == ("s0", 1000), "by its reservation"


def test_what_is_not_classified_goes_by_its_reservation() -> None:
    answer = place(view_of(4), wants(), None)
    assert given(answer) == ("s0", 1000)
    assert answer.decision.predicted is None
    nothing_of_it = known(quantity=Quantity.LATENCY)
    assert given(place(view_of(4), wants(), nothing_of_it)) == ("s0", 1000)
    assert not parts_of(workload("w"), known(), 0.0), "no target, nothing to predict"


def test_the_chance_to_reach_a_target() -> None:
    assert reached_probability(Estimate(1.0, 0.2)) == pytest.approx(0.5)
    assert reached_probability(Estimate(exp(0.2), 0.2)) == pytest.approx(0.8413, abs=1e-4)
    assert reached_probability(Estimate(1.0, 0.0)) == 1.0
    assert reached_probability(Estimate(0.99, 0.0)) == 0.0


# --- beside whom ------------------------------------------------------------------------------


def test_two_that_share_no_bottleneck_are_packed_together() -> None:
    """One presses on the disk and minds the cache, the other the other way round.

    Less of what could be tolerated is wasted than on the empty server.
    """
    resident = known(tolerated={CACHE: 10.0, DISK: 90.0}, caused={CACHE: 0.0, DISK: 60.0})
    newcomer = known(tolerated={CACHE: 90.0, DISK: 80.0}, caused={CACHE: 5.0, DISK: 1.0})
    view = at_ease(view_of(4, 4, residents={"s1": [resident]}), 1, resident)
    answer = place(view, wants(), replace(newcomer, curves=flat()))
    assert isinstance(answer, Place)
    numbers = {c.server: c for c in answer.decision.candidates}
    # s1: cache |(10 - 5) + (90 - 0)| = 95, disk |(90 - 1) + (80 - 60)| = 109: 204 of 400.
    # s0: cache |(100 - 5) + 90| = 185, disk |(100 - 1) + 80| = 179: 364 of 400.
    # Nobody's target is in doubt, so both gain the same, and that decides.
    need = numbers["s1"].numbers["cpu_needed_millicpus"] / 1000
    scores = need + 204 / 400, need + 364 / 400
    assert given(answer)[0] == "s1"
    assert numbers["s1"].score == pytest.approx(scores[0] / (1 + scores[1]))
    assert numbers["s0"].score == pytest.approx(scores[1] / (1 + scores[1]))


def flat() -> dict[Quantity, Curve]:
    """A rate that a tenth more pressure does not make miss 100/s: 200/s from half a CPU on."""
    return {Quantity.RATE: Curve((50, 4000), (Estimate(200.0, 0.0), Estimate(200.0, 0.0)))}


def test_two_that_share_a_bottleneck_are_kept_apart() -> None:
    hog = known(tolerated={DISK: 20.0}, caused={DISK: 60.0})
    view = view_of(4, 4, residents={"s0": [hog]})
    answer = place(view, wants(), replace(hog, curves=flat()))
    assert isinstance(answer, Place)
    assert given(answer)[0] == "s1"
    beside = next(c for c in answer.decision.candidates if c.server == "s0")
    assert beside.numbers["residents_targets_lost"] == pytest.approx(0.5, abs=0.01)
    # D1 = 20 - 60 and D2 = 20 - 60.
    assert beside.numbers["interference_beyond_tolerated"] == pytest.approx(80)


def test_either_way_alone_keeps_them_apart() -> None:
    """The one has nothing to lose, the other nothing to spare."""
    quiet = replace(known(tolerated={DISK: 100.0}, caused={DISK: 30.0}), curves=flat())
    view = view_of(4, 4, residents={"s0": [known(tolerated={DISK: 29.0})]})
    assert given(place(view, wants(), quiet))[0] == "s1"
    view = view_of(4, 4, residents={"s0": [known(caused={DISK: 101.0})]})
    assert given(place(view, wants(199.0), quiet))[0] == "s1"
    kept = known(tolerated={DISK: 30.0}, caused={DISK: 100.0})
    assert given(place(view_of(1, residents={"s0": [kept]}), wants(), quiet))[0] == "s0"


def test_what_several_cause_is_added_up_and_the_least_tolerant_counts() -> None:
    two = [known(tolerated={DISK: t}, caused={DISK: 30.0}) for t in (50.0, 40.0)]
    view = view_of(4, residents={"s0": two})
    (score,) = view.contention.scores(0)
    assert (score.source, score.caused.mean, score.tolerated.mean) == (DISK, 60.0, 40.0)


def test_what_a_resident_loses_is_weighed_and_not_filtered() -> None:
    """The published rule keeps it away, as 60 are caused where 50 are tolerated.

    But one server costs the newcomer its target surely, and the other a resident a little.
    """
    newcomer = replace(known(caused={DISK: 60.0}), platform="usual")
    newcomer = replace(newcomer, platforms={"slow": Estimate(0.2, 0.0)})
    resident = known(tolerated={DISK: 50.0})
    view = at_ease(view_of(4, 4, residents={"s0": [resident]}), 0, resident)
    view = replace(view, platform=np.array([0, 1]), platforms=("usual", "slow"))
    answer = place(view, wants(380.0), newcomer)
    assert given(answer)[0] == "s0"
    beside = answer.decision.candidates[0].numbers
    assert beside["interference_beyond_tolerated"] == pytest.approx(10.0)
    assert beside["residents_targets_lost"] < 0.05


def test_where_nobody_is_spared_the_smaller_harm_is_taken_and_said() -> None:
    newcomer = replace(known(caused={DISK: 60.0}), curves=flat())
    residents = {"s0": [known(tolerated={DISK: 20.0})], "s1": [known(tolerated={DISK: 50.0})]}
    answer = place(view_of(4, 4, residents=residents), wants(), newcomer)
    assert isinstance(answer, Place)
    assert "storage-bandwidth is exceeded by 10 points" in answer.decision.message


# --- best-effort ------------------------------------------------------------------------------

FILLER = workload("filler", best_effort=True)


def test_best_effort_goes_where_it_disturbs_nobody() -> None:
    noisy = known(caused={DISK: 60.0})
    residents = {"s0": [known(tolerated={DISK: 20.0})]}
    used = {"s1": 3000}
    answer = place(view_of(4, 4, residents=residents, used=used), FILLER, noisy)
    assert given(answer) == ("s1", 0), "though s0 is emptier"


def test_best_effort_goes_to_the_platform_where_it_should_do_best() -> None:
    view = replace(view_of(4, 4, 8), platform=np.array([0, 1, 0]), platforms=("usual", "fast"))
    what = replace(known(), platform="fast", platforms={"usual": Estimate(0.5, 0.1)})
    assert given(place(view, FILLER, what)) == ("s1", 0), "though s2 has more idle CPU"
    assert given(place(view, FILLER, None)) == ("s0", 0), "of which nothing is known"


def test_best_effort_takes_the_slower_platform_where_others_want_the_faster() -> None:
    view = replace(view_of(4, 4), platform=np.array([0, 1]), platforms=("usual", "fast"))
    what = replace(known(), platform="fast", platforms={"usual": Estimate(0.8, 0.1)})
    wide = replace(FILLER, reservation=Reservation(2000, MIB))
    for wanted, server_name in ((2000, "s1"), (3000, "s0")):
        crowded = replace(view, cpu_wanted=np.array([0, wanted]))
        assert given(place(crowded, wide, what)) == (server_name, 0)


def test_best_effort_keeps_off_allocated_cpu_unless_the_others_are_much_slower() -> None:
    view = replace(
        view_of(4, 4, used={"s1": 1000}), platform=np.array([0, 1]), platforms=("usual", "fast")
    )
    for ratio, server_name in ((0.8, "s0"), (0.7, "s1")):
        what = replace(known(), platform="fast", platforms={"usual": Estimate(ratio, 0.1)})
        assert given(place(view, FILLER, what)) == (server_name, 0)


def test_contention_counts_half_for_best_effort_work_that_was_measured() -> None:
    """What a cold start says of scores tells half of it; neighbors lose as much in both cases."""
    view = view_of(4, 4, residents={"s1": [known(caused={DISK: 60.0})]})
    view = replace(view, platform=np.array([0, 1]), platforms=("usual", "fast"))
    what = replace(known(tolerated={DISK: 40.0}), platform="fast")
    taken = view.contention.assess(Request(FILLER, classification=what), view, 0.5).suffered.mean[1]
    assert taken > 0
    what = replace(what, platforms={"usual": Estimate(exp(-3 * taken), 0.0)})
    for measured, server_name in ((0, "s0"), (2, "s1")):
        answer = place(view, FILLER, replace(what, measured=measured))
        assert given(answer) == (server_name, 0)


def test_of_servers_where_best_effort_would_do_the_same_the_emptiest_is_taken() -> None:
    view = replace(view_of(4, 4), cpu_wanted=np.array([2000, 1000]))
    assert given(place(view, FILLER, None)) == ("s1", 0)


def test_best_effort_waits_where_it_would_disturb_everyone() -> None:
    noisy = known(caused={DISK: 60.0})
    view = view_of(4, residents={"s0": [known(tolerated={DISK: 20.0})]})
    refusal = place(view, FILLER, noisy)
    assert refusal.decision.reason is ReasonCode.INTERFERENCE
    assert "storage-bandwidth by 40 points more than tolerated" in refusal.decision.message


def test_best_effort_leaves_the_cores_to_others() -> None:
    spinner = known(caused={INTEGER: 100.0})
    view = view_of(4, residents={"s0": [known(tolerated={INTEGER: 5.0})]})
    assert given(place(view, FILLER, spinner)) == ("s0", 0)


# --- refusals ---------------------------------------------------------------------------------


def test_no_servers() -> None:
    for answer in (
        place(view_of(), wants(), known()),
        place(view_of(), FILLER, known()),
        place(view_of(), wants(), None),
    ):
        assert answer.decision.reason is ReasonCode.NO_SERVERS


def test_each_server_is_measured_by_what_it_would_take_there() -> None:
    """Less is enough on s0, which is full; on s1, with more free than that, it is not enough."""
    residents = {"s1": [known(caused={CACHE: 80.0})]}
    view = view_of(2, 2, residents=residents, used={"s0": 1500, "s1": 900})
    refusal = place(view, wants(), replace(known(tolerated={CACHE: 20.0}), caused={}))
    assert refusal.decision.reason is ReasonCode.NO_ROOM
    # 1000 / 0.95**4 = 1228 on s1, 1100 are free there.
    assert "s1 has 1.1 CPU" in refusal.decision.would_change
    assert refusal.decision.message.startswith("no server has 1.25 CPU")


def test_a_server_without_cpu_is_not_taken_for_one_with_room() -> None:
    refusal = place(view_of(0, 2, used={"s1": 2000}), wants(), known())
    assert refusal.decision.reason is ReasonCode.NO_ROOM
    assert place(view_of(0), wants(), None).decision.reason is ReasonCode.TOO_LARGE
    able = Capabilities(fractional_cpu=False)
    assert place(view_of(0, 0, able=able), wants(), known()).decision.reason is (
        ReasonCode.TOO_LARGE
    )


def test_a_server_whose_resident_is_off_its_prediction_takes_nothing_new() -> None:
    refusal = place(view_of(4, unsettled=("s0",)), wants(), known())
    assert refusal.decision.reason is ReasonCode.OFF_PREDICTION
    assert given(place(view_of(4, 4, unsettled=("s0",)), wants(), known()))[0] == "s1"


@pytest.mark.parametrize(
    ("view", "reason"),
    [
        (view_of(2, 2, used={"s0": 1500, "s1": 1500}), ReasonCode.NO_ROOM),
        (view_of(4, unsettled=("s0",)), ReasonCode.OFF_PREDICTION),
        (view_of(1), ReasonCode.TOO_LARGE),
        (view_of(), ReasonCode.NO_SERVERS),
    ],
)
def test_a_refusal_that_was_told_is_the_same_and_lists_nothing(view, reason) -> None:
    wanted = wants(on_miss=OnMiss.REJECT, reservation=Reservation(2000, MIB))
    what = known() if reason is not ReasonCode.TOO_LARGE else None
    told = place(view, wanted, what)
    again = place(view, wanted, what, told={reason})
    assert told.decision.reason is again.decision.reason is reason
    assert again.decision.candidates == ()
    assert len(told.decision.candidates) == len(view.names)
    assert np.array_equal(told.cpu_needed, again.cpu_needed)
    other = place(view, wanted, what, told={ReasonCode.WAITING})
    assert other == told, "told for another reason, it is told in full"


def test_a_place_that_does_not_pay_is_refused_and_not_explained() -> None:
    view, asked = view_of(4, 2), []

    def pays(predicted: Prediction) -> bool:
        asked.append(predicted)
        return predicted.mean > 2

    plain = place(view, wants(), known())
    assert isinstance(place(view, wants(), known(), told=ALL_REASONS, pays=pays), Refuse)
    assert plain.decision.predicted in asked, "more may be had than on a server of 4 CPUs"
    assert place(view, wants(), known(), pays=lambda _: True) == plain


# --- resizing ---------------------------------------------------------------------------------


def resize(off: OffTarget, held: int, what: Classification | None, *, cpus: int = 4, **able):
    view = view_of(cpus, used={"s0": held}, able=Capabilities(**able))
    request = Request(wants(), off_target=off, classification=what)
    return Quasar().resize(request, (Placement("s0", Allocation(held, MIB)),), view)


def cpu_of(answer: Place | Refuse | None) -> int | None:
    return answer.placements[0].allocation.cpu_millicpus if isinstance(answer, Place) else None


def test_cpu_follows_the_curve_from_how_it_does_now() -> None:
    """Its curve is the square root: for 1.1 / 0.8 of the pace, 1.89 of the CPU."""
    root = Curve((500, 2000), (Estimate(50.0, 0.1), Estimate(100.0, 0.1)))
    what = Classification("hand", "1", shape=root)
    assert cpu_of(resize(OffTarget(0.8, 10, None), 1000, what)) == 1900
    # Over it: (1.1 / 1.5) ** 2 of 2000 is 1076.
    assert cpu_of(resize(OffTarget(1.5, 60, None), 2000, what)) == 1100


def test_where_the_curve_says_that_nothing_helps_it_goes_by_proportion() -> None:
    what = known(up_to=1000)
    assert cpu_of(resize(OffTarget(0.8, 10, None), 1000, what)) == 1375
    assert cpu_of(resize(OffTarget(0.8, 10, None), 1000, None)) == 1375


def test_of_what_does_not_help_twice_what_is_used_stays_whatever_the_curve() -> None:
    """Along this curve a fraction of it would do."""
    flat = Curve((500, 4000), (Estimate(100.0, 0.1), Estimate(101.0, 0.1)))
    what = Classification("hand", "1", shape=flat)
    idle = OffTarget(2000 / (2 * 800), 60, 0.8, idle=True)
    assert cpu_of(resize(idle, 2000, what)) == round(1.1 * 2 * 800)
    assert cpu_of(resize(replace(idle, normalized=5.0), 2000, what)) == 1000, "half at most"


def test_a_miss_is_answered_with_a_step_that_shows_or_with_the_reason() -> None:
    steep = Curve((1000, 1050, 4000), (Estimate(1.0, 0), Estimate(5.0, 0), Estimate(5.0, 0)))
    what = Classification("hand", "1", shape=steep)
    assert cpu_of(resize(OffTarget(0.9, 10, None), 1000, what)) == 1051
    no_room = resize(OffTarget(0.9, 10, None), 2000, known(), cpus=2)
    assert isinstance(no_room, Refuse)
    assert no_room.decision.reason is ReasonCode.NO_ROOM


def test_whole_cpus_are_given_whole_or_refused() -> None:
    assert cpu_of(resize(OffTarget(0.9, 10, None), 1000, known(), fractional_cpu=False)) == 2000
    # Half a CPU is free: that is no room.
    columns = ServerTable()
    columns.put(replace(server("s0"), cpu_millicpus=1500))
    placements = (Placement("s0", Allocation(1000, MIB)),)
    columns.hold(placements)
    view = columns.view(Capabilities(fractional_cpu=False))
    request = Request(wants(), off_target=OffTarget(0.9, 10, None))
    refusal = Quasar().resize(request, placements, view)
    assert isinstance(refusal, Refuse)
    assert refusal.decision.reason is ReasonCode.NO_ROOM


def test_a_load_that_has_risen_is_sized_for_though_the_cpu_is_idle_as_yet() -> None:
    what = known()
    idle = OffTarget(0.8, 0.0, 0.1)
    assert isinstance(resize(idle, 1000, what), Refuse)
    assert cpu_of(resize(replace(idle, offered_per_second=90.0), 1000, what)) >= 1375


def test_an_engine_that_cannot_resize_is_not_asked_to() -> None:
    refusal = resize(OffTarget(0.8, 10, None), 1000, known(), resize=Resize.NONE)
    assert isinstance(refusal, Refuse)
    assert refusal.decision.reason is ReasonCode.NOT_SUPPORTED


def test_of_servers_that_are_about_as_good_the_emptier_one() -> None:
    """A neighbor that causes 2 of 100 points makes the half-full server fit a little better."""
    neighbor = known(caused={CACHE: 2.0}, tolerated={CACHE: 98.0})
    newcomer = known(tolerated={CACHE: 90.0}, caused={CACHE: 5.0})
    view = view_of(4, 4, residents={"s0": [neighbor]}, used={"s0": 2000})
    alike = SizingSettings(idle_confidence=0.8)
    strict = Quasar(QuasarSettings(alike, same_score=0.0, fragmentation_weight=0.0))
    request = Request(wants(93.0), classification=newcomer)
    assert given(strict.place(request, view))[0] == "s0"
    assert given(place(view, wants(93.0), newcomer))[0] == "s1"


def test_a_clearly_better_fit_is_taken_though_it_is_fuller() -> None:
    neighbor = known(caused={CACHE: 20.0}, tolerated={CACHE: 50.0})
    newcomer = known(tolerated={CACHE: 90.0}, caused={CACHE: 5.0})
    view = view_of(4, 4, residents={"s0": [neighbor]}, used={"s0": 2000})
    view = at_ease(view, 0, neighbor)
    request = Request(wants(50.0), classification=newcomer)
    settings = QuasarSettings(SizingSettings(confidence=0.5))
    assert given(Quasar(settings).place(request, view))[0] == "s0"


def test_where_the_target_is_not_sure_it_is_given_what_its_user_states() -> None:
    """A curve that two runs made level off at one CPU; its user knows of four."""
    flat_from_one = replace(
        known(0.1),
        curves={Quantity.RATE: Curve((1000, 4000), (Estimate(100.0, 0.1), Estimate(101.0, 0.1)))},
    )
    wanted = wants(200.0)
    of_four = replace(wanted, reservation=Reservation(4000, MIB))
    unstated = replace(wanted, reservation=Reservation(4000, MIB, elastic_cpu=True))
    assert given(place(view_of(4), of_four, flat_from_one)) == ("s0", 4000)
    assert given(place(view_of(2), of_four, flat_from_one)) == ("s0", 2000), "all that there is"
    assert given(place(view_of(4), unstated, flat_from_one))[1] < 4000


def test_what_is_not_sure_takes_no_more_than_stated_where_others_may_lack_it() -> None:
    hopeless = replace(wants(1e6), reservation=Reservation(1000, MIB))
    idle, busy = view_of(8, 8), view_of(8, 8, used={"s0": 1000, "s1": 8000})
    assert given(place(idle, hopeless, known(0.1)))[1] > 1000
    assert given(place(busy, hopeless, known(0.1))) == ("s0", 1000)


def test_where_cpus_are_whole_the_slowest_platform_that_does_is_taken() -> None:
    whole = Capabilities(fractional_cpu=False, shares_cpus=False)
    what = replace(known(0.01), platform="usual", platforms={"slow": Estimate(0.5, 0.01)})
    slow_last = {"platform": np.array([0, 1]), "platforms": ("usual", "slow")}

    def chosen(rate: float, able: Capabilities) -> str:
        view = replace(view_of(1, 1, able=able), **slow_last)
        verdict = Quasar().place(Request(wants(rate), classification=what), view)
        assert isinstance(verdict, Place)
        return verdict.placements[0].server

    assert chosen(25.0, whole) == "s1"
    assert chosen(80.0, whole) == "s0"
    assert chosen(200.0, whole) == "s0"


def test_where_cpus_are_whole_neighbors_make_no_platform_a_slow_one() -> None:
    whole = Capabilities(fractional_cpu=False, shares_cpus=False)
    guess = replace(known(caused={CACHE: 4.0}, tolerated={CACHE: 90.0}), scores_measured=False)
    view = view_of(4, 4, able=whole, residents={"s0": [guess]}, used={"s0": 1000})
    assert given(place(view, wants(), guess)) == ("s1", 1000)


def test_where_no_score_is_measured_the_cpu_that_residents_hold_counts() -> None:
    """What is predicted of sources would have it the other way round."""
    guess = replace(known(tolerated={CACHE: 30.0}), scores_measured=False)
    loud, quiet = known(caused={CACHE: 60.0}), known(caused={CACHE: 2.0})
    residents, used = {"s0": [loud], "s1": [quiet]}, {"s0": 500, "s1": 2500}
    view = view_of(4, 4, residents=residents, used=used)
    assert given(place(view, wants(), guess))[0] == "s0"
    assert given(place(view, wants(), replace(guess, scores_measured=True)))[0] == "s1"
