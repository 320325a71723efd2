"""Who is copied, where, and at which allocations."""

import math
from dataclasses import replace

import numpy as np
import pytest

from tests.support.cluster import Cluster, server, workload
from wharfinger.classification.classifier import Classifications
from wharfinger.classification.planner import MIN_MILLICPUS, JointPlanner
from wharfinger.classification.utility import Aspect, UtilityMatrix
from wharfinger.core import events as ev
from wharfinger.core.seams.estimation import Profiling, ProfilingNeeds
from wharfinger.model.configuration import Configuration, Setting
from wharfinger.model.decisions import ReasonCode
from wharfinger.model.interference import SharedResource
from wharfinger.model.performance import Quantity
from wharfinger.model.profile import Entry, Measurements, ProfilingPlan, SettingEntry
from wharfinger.model.view import Capabilities, Request, View
from wharfinger.model.workload import (
    Measure,
    Profile,
    ProfileMode,
    Scale,
    Target,
    Workload,
    WorkloadType,
)

COLUMNS = (100, 250, 500, 750, 1000, 2000)
_RNG = np.random.default_rng(0)
BY_CPU = UtilityMatrix.of(
    Aspect.SCALE_UP,
    {
        f"p{number}": {
            Configuration(cpu).name: min(cpu, limit) * math.exp(_RNG.normal(0, 0.05))
            for cpu in COLUMNS
        }
        for number, limit in enumerate((500, 1000, 2000) * 4)
    },
)
PLANNER = JointPlanner(Classifications({Aspect.SCALE_UP: BY_CPU}, "gaussian"))
TARGETED = replace(workload("w"), target=Target(rate_per_second=1.0))
ABLE = Capabilities(profiles=True)


def view(*cpus: int, able: Capabilities = ABLE) -> View:
    cluster = Cluster()
    for number, cpu in enumerate(cpus):
        made = server(f"s{number}")
        cluster.tell(ev.ServerReported(replace(made, cpu_millicpus=cpu)))
    return replace(cluster.manager.view, capabilities=able)


def test_two_allocations_on_the_server_with_the_most_room_the_larger_first() -> None:
    found = PLANNER.plan(Request(TARGETED), view(500, 1000))
    assert found is not None
    assert found.plan is not None
    assert found.plan.server == "s1"
    first, second = found.plan.cpu_millicpus
    assert first == 500, "the sources have the other half"
    assert MIN_MILLICPUS <= second < first
    assert found.plan.seconds == TARGETED.profile.seconds
    assert len(found.plan.sources) == 2
    assert found.decision.accepted


@pytest.mark.parametrize(
    ("cpus", "allocations"), [((300,), (250, 100)), ((250,), (250, 100)), ((600,), (500, 250))]
)
def test_with_little_room_smaller_allocations_are_measured(cpus, allocations) -> None:
    found = PLANNER.plan(Request(TARGETED), view(*cpus))
    assert found is not None
    assert found.plan is not None
    assert found.plan.cpu_millicpus == allocations


@pytest.mark.parametrize("cpus", [(), (200,)])
def test_without_room_it_waits(cpus) -> None:
    found = PLANNER.plan(Request(TARGETED), view(*cpus))
    assert found is not None
    assert found.plan is None
    assert not found.decision.accepted
    assert found.decision.reason is (ReasonCode.NO_ROOM if cpus else ReasonCode.NO_SERVERS)
    assert found.decision.would_change


def test_room_that_is_kept_for_others_is_not_taken() -> None:
    there = view(500, 1000)
    found = PLANNER.plan(Request(TARGETED, excluded=frozenset({1})), there)
    assert found is not None
    assert found.plan is not None
    assert found.plan.server == "s0"
    none_left = PLANNER.plan(Request(TARGETED, excluded=frozenset({0, 1})), there)
    assert none_left is not None
    assert none_left.decision.reason is ReasonCode.NO_ROOM


@pytest.mark.parametrize(("elastic", "expected_mib"), [(True, 2048), (False, 256)])
def test_a_copy_of_unstated_memory_gets_half_of_the_server(
    elastic: bool, expected_mib: int
) -> None:
    reservation = replace(TARGETED.reservation, elastic_memory=elastic)
    found = PLANNER.plan(Request(replace(TARGETED, reservation=reservation)), view(2000))
    assert found is not None
    assert found.plan is not None
    assert found.plan.memory_bytes == expected_mib * 2**20


def test_one_copy_a_server() -> None:
    seen = view(1000, 500)
    busy = replace(seen, copies=np.array([1, 0]))
    found = PLANNER.plan(Request(TARGETED), busy)
    assert found is not None
    assert found.plan is not None
    assert found.plan.server == "s1"
    full = PLANNER.plan(Request(TARGETED), replace(seen, copies=np.array([1, 1])))
    assert full is not None
    assert not full.decision.accepted


def test_whole_cpus_only_where_there_are_no_others() -> None:
    able = Capabilities(profiles=True, fractional_cpu=False)
    for cpus, allocations in (((2000,), (2000, 1000)), ((1000,), (1000,))):
        found = PLANNER.plan(Request(TARGETED), view(*cpus, able=able))
        assert found is not None
        assert found.plan is not None
        assert found.plan.cpu_millicpus == allocations


def test_what_is_over_before_it_is_copied_is_not_profiled() -> None:
    for within, copied in ((16.0, False), (17.0, True)):
        short = replace(TARGETED, target=Target(completion_seconds=within))
        found = PLANNER.plan(Request(short), view(1000))
        assert found is not None
        assert (found.plan is not None) == copied
        assert ("is to end within 16 s" in found.decision.message) != copied


def test_several_servers_and_another_platform_are_tried_where_the_engine_can() -> None:
    known = Classifications(
        {
            Aspect.SCALE_UP: BY_CPU,
            Aspect.SCALE_OUT: UtilityMatrix.of(
                Aspect.SCALE_OUT, {"a": {"1": 1.0, "2": 1.9, "8": 5.0}, "b": {"1": 1.0, "2": 1.2}}
            ),
            Aspect.HETEROGENEITY: UtilityMatrix.of(
                Aspect.HETEROGENEITY, {"a": {"test": 1.0, "fast": 2.0}, "b": {"test": 1.0}}
            ),
        },
        "gaussian",
    )
    cluster = Cluster()
    for name, cpu in (("s0", 2000), ("s1", 1000), ("s2", 2000)):
        cluster.tell(ev.ServerReported(replace(server(name), cpu_millicpus=cpu)))
    fast = server("f", 4)
    fast = replace(fast, platform=replace(fast.platform, name="fast"), cpu_millicpus=1000)
    cluster.tell(ev.ServerReported(fast))
    able = Capabilities(profiles=True, max_servers_per_workload=8)
    seen = replace(cluster.manager.view, capabilities=able)
    planner = JointPlanner(known)
    wide = replace(TARGETED, scale=Scale(max_servers=4))

    found = planner.plan(Request(wide), seen)
    assert found is not None
    assert found.plan is not None
    settings = [(run.setting.platform, run.setting.servers) for run in found.plan.further]
    assert settings == [("test", 2), ("fast", 1)]
    assert [run.servers for run in found.plan.further] == [("s0", "s2"), ("f",)]
    held = {p.server: p.allocation.cpu_millicpus for p in found.plan.placements}
    assert held == dict.fromkeys(("s0", "s2", "f"), found.plan.cpu_millicpus[0])
    assert "one on s0, s2" in found.decision.message

    alone = planner.plan(Request(TARGETED), seen)
    assert alone is not None
    assert alone.plan is not None
    assert [run.servers for run in alone.plan.further] == [("f",)], "it may not scale out"


SERVICE = replace(TARGETED, type=WorkloadType.LATENCY_CRITICAL)
LOADED = replace(SERVICE, measure=Measure(load_command=("wrk",)))


@pytest.mark.parametrize(
    ("what", "able", "copied"),
    [
        (TARGETED, ABLE, True),
        (LOADED, ABLE, True),
        (SERVICE, ABLE, False),
        (replace(TARGETED, type=WorkloadType.BEST_EFFORT), ABLE, False),
        (replace(TARGETED, target=None), ABLE, False),
        (replace(TARGETED, profile=Profile(ProfileMode.LIVE)), ABLE, False),
        (replace(TARGETED, profile=Profile(ProfileMode.NONE)), ABLE, False),
        (TARGETED, Capabilities(profiles=False), False),
    ],
)
def test_who_is_not_copied_goes_by_its_like(what, able, copied) -> None:
    found = PLANNER.plan(Request(what), view(1000, able=able))
    assert found is not None
    assert found.decision.accepted
    assert (found.plan is not None) == copied


def test_what_is_stated_runs_where_no_resident_slows_the_copy() -> None:
    """A sizing copy goes where most room is; residents would pass for a slow platform."""
    across = {f"p{number}": {"test": 1.0 + number, "other": 2.0 + number} for number in range(4)}
    matrices = {
        Aspect.SCALE_UP: BY_CPU,
        Aspect.HETEROGENEITY: UtilityMatrix.of(Aspect.HETEROGENEITY, across),
    }
    made = Classifications(matrices, "gaussian")
    cluster = Cluster()
    for name in ("busy", "quiet", "far-busy", "far-quiet"):
        one = server(name)
        platform = replace(one.platform, name="other" if "far" in name else one.platform.name)
        cpu = 4000 if "busy" in name else 3000
        cluster.tell(ev.ServerReported(replace(one, platform=platform, cpu_millicpus=cpu)))
    seen = replace(
        cluster.manager.view,
        capabilities=ABLE,
        residents=np.array(["busy" in name for name in cluster.manager.view.names], dtype=np.int64),
    )
    job = replace(TARGETED, reservation=replace(TARGETED.reservation, cpu_millicpus=1000))
    needs = ProfilingNeeds(stated=True, sources=0, idle_share=0.25)
    found = JointPlanner(made, needs=needs).plan(Request(job), seen)
    assert found is not None
    assert found.plan is not None
    assert {found.plan.server, *(s for run in found.plan.further for s in run.servers)} == {
        "quiet",
        "far-quiet",
    }
    largest = replace(job, reservation=replace(job.reservation, cpu_millicpus=4000))
    found = JointPlanner(made, needs=needs).plan(Request(largest), seen)
    assert found is not None
    assert found.plan is not None
    assert found.plan.server in ("busy", "far-busy"), "where else it does not fit"


def test_a_copy_without_sources_runs_for_its_share_of_the_seconds() -> None:
    made = Classifications({Aspect.SCALE_UP: BY_CPU}, "gaussian")
    found = JointPlanner(made, needs=ProfilingNeeds(sources=0)).plan(
        Request(TARGETED), view(1000, 1000)
    )
    assert found is not None
    assert found.plan is not None
    assert (len(found.plan.cpu_millicpus), found.plan.sources) == (2, ())
    assert found.plan.seconds == pytest.approx(TARGETED.profile.seconds * 2 / 10)
    assert found.plan.limit_seconds == TARGETED.profile.seconds


def test_where_sizes_are_chosen_what_is_stated_is_run_and_another() -> None:
    """On several servers; on one its neighbors must be known, and all that tells most is run."""
    made = Classifications({Aspect.SCALE_UP: BY_CPU}, "gaussian")
    planner = JointPlanner(made, needs=ProfilingNeeds(stated=True, sizes=2, sources=0))
    stated = replace(TARGETED, reservation=replace(TARGETED.reservation, cpu_millicpus=500))

    def sizes(job: Workload, seen: View) -> tuple[int, ...]:
        found = planner.plan(Request(job), seen)
        assert found is not None
        assert found.plan is not None
        return found.plan.cpu_millicpus

    two = sizes(stated, view(4000, 4000))
    assert (len(two), two[0] > two[1], 500 in two) == (2, True, True)
    unstated = replace(stated, reservation=replace(stated.reservation, elastic_cpu=True))
    joint = JointPlanner(made, needs=ProfilingNeeds(sources=0)).plan(
        Request(stated), view(4000, 4000)
    )
    assert joint is not None
    assert joint.plan is not None
    reference, largest, *others = sizes(unstated, view(4000, 4000))
    assert ((reference, *others), largest) == (joint.plan.cpu_millicpus, 4000)


def test_what_has_waited_for_long_is_copied_with_what_is_free() -> None:
    """Its size can be chosen, so that less tells of it, too; what keeps its size waits for that."""
    made = Classifications({Aspect.SCALE_UP: BY_CPU}, "gaussian")
    stated = replace(TARGETED, reservation=replace(TARGETED.reservation, cpu_millicpus=2000))
    full = replace(view(4000, 4000), cpu_allocated=np.array([3200, 3900]))

    def plan(patience_seconds: float | None, waited_seconds: float) -> Profiling:
        needs = ProfilingNeeds(stated=True, sizes=2, sources=0, patience_seconds=patience_seconds)
        request = Request(stated, waited_seconds=waited_seconds, now=1000.0)
        found = JointPlanner(made, needs=needs).plan(request, full)
        assert found is not None
        return found

    assert (few := plan(60, 60).plan) is not None
    assert (few.server, few.cpu_millicpus[0]) == ("s0", 750)
    for waits, again_at in ((plan(60, 45), 1015.0), (plan(None, 45), None)):
        assert waits.decision.message == "no server has 2 CPU free for a profiling copy"
        assert waits.again_at == again_at
    full = replace(full, cpu_allocated=np.array([3800, 3900]))
    assert plan(60, 60).decision.message == "no server has 0.25 CPU free for a profiling copy"
    full = replace(full, capabilities=replace(ABLE, fractional_cpu=False))
    assert plan(60, 60).decision.message == "no server has 1 CPU free for a profiling copy"


def test_where_no_cpu_is_stated_all_that_is_free_is_measured_too() -> None:
    unstated = replace(TARGETED, reservation=replace(TARGETED.reservation, elastic_cpu=True))

    def sizes(job: Workload, seen: View) -> tuple[int, ...]:
        found = PLANNER.plan(Request(job), seen)
        assert found is not None
        assert found.plan is not None
        return found.plan.cpu_millicpus

    assert max(sizes(TARGETED, view(4000))) <= 2000
    reference, *others = sizes(unstated, view(4000))
    assert reference <= 2000  # At which sources are injected: half of the server is for them.
    assert max(others) == 4000
    beside = replace(view(4000), residents=np.array([1]))
    assert max(sizes(unstated, beside)) <= 2000


def test_a_second_size_runs_at_the_same_time_where_a_like_server_has_room() -> None:
    needs = ProfilingNeeds(stated=True, sizes=2, sources=0, idle_share=1.0)
    planner = JointPlanner(Classifications({Aspect.SCALE_UP: BY_CPU}, "gaussian"), needs=needs)
    stated = replace(TARGETED, reservation=replace(TARGETED.reservation, cpu_millicpus=500))

    def plan(**able: bool) -> ProfilingPlan:
        seen = view(4000, 4000)
        seen = replace(seen, capabilities=replace(seen.capabilities, **able))
        found = planner.plan(Request(stated), seen)
        assert found is not None
        assert found.plan is not None
        return found.plan

    apart, alone = plan(profiles_apart=True), plan(profiles_apart=False)
    assert len(apart.cpu_millicpus) == 2
    assert apart.apart
    assert apart.apart[0] != apart.server
    assert not alone.apart


NAMES = ("test", "one", "two", "three")


def _stated(probes: str) -> tuple[JointPlanner, Request, View]:
    """A server of each platform; a program may be fastest on any."""
    rng = np.random.default_rng(3)
    across = {
        f"p{number}": dict(zip(NAMES, np.exp(rng.normal(0, 0.4, 4)).tolist(), strict=True))
        for number in range(30)
    }
    matrices = {
        Aspect.SCALE_UP: BY_CPU,
        Aspect.HETEROGENEITY: UtilityMatrix.of(Aspect.HETEROGENEITY, across),
    }
    cluster = Cluster()
    for name in NAMES:
        one = server(name)
        platform = replace(one.platform, name=name)
        cluster.tell(ev.ServerReported(replace(one, platform=platform, cpu_millicpus=4000)))
    needs = ProfilingNeeds(stated=True, sources=0, idle_share=1.0, probes=probes)
    planner = JointPlanner(Classifications(matrices, "gaussian"), needs=needs)
    job = replace(TARGETED, reservation=replace(TARGETED.reservation, cpu_millicpus=1000))
    return planner, Request(job), replace(cluster.manager.view, capabilities=ABLE)


@pytest.mark.parametrize(("probes", "platforms"), [("all", 4), ("auto", 4), ("1", 2), ("0", 1)])
def test_what_is_stated_runs_on_as_many_platforms_as_are_asked_for(probes, platforms) -> None:
    planner, request, seen = _stated(probes)
    found = planner.plan(request, seen)
    assert found is not None
    assert found.plan is not None
    assert len(found.plan.placements) == platforms


def test_a_program_that_comes_back_is_run_where_it_was_not() -> None:
    planner, request, seen = _stated("auto")

    def measured(*names: str) -> Request:
        here, *others = names
        further = tuple(
            SettingEntry(Setting(name, Configuration(1000)), Entry(1.0, 0.03)) for name in others
        )
        row = {Quantity.RATE: {1000: Entry(1.0, 0.03)}}
        known = Measurements(row, total=1e4, platform=here, further={Quantity.RATE: further})
        return replace(request, measurements=known)

    found = planner.plan(measured("test", "one"), seen)
    assert found is not None
    assert found.plan is not None
    assert found.plan.completes
    assert {p.server for p in found.plan.placements} <= {"two", "three"}
    whole = planner.plan(measured(*NAMES), seen)
    assert whole is not None
    assert (whole.plan, whole.known) == (None, True)


def test_what_no_server_could_hold_waits_for_no_copy() -> None:
    planner, request, seen = _stated("auto")
    large = replace(request.workload.reservation, cpu_millicpus=16_000)
    request = replace(request, workload=replace(request.workload, reservation=large))
    found = planner.plan(request, seen)
    assert found is not None
    assert (found.plan, found.decision.accepted) == (None, True)
    assert found.decision.message == "no server has 16 CPU, even when empty: a cold start"
    row = {Quantity.RATE: {1000: Entry(1.0, 0.03)}}
    known = replace(request, measurements=Measurements(row, total=1e4, platform="test"))
    found = planner.plan(known, seen)
    assert found is not None
    assert (found.plan, found.known) == (None, True)


def test_a_known_program_waits_for_room_and_for_no_copy() -> None:
    planner, request, seen = _stated("auto")
    row = {Quantity.RATE: {1000: Entry(1.0, 0.03)}}
    known = replace(request, measurements=Measurements(row, total=1e4, platform="test"))
    full = replace(seen, cpu_allocated=seen.cpu_capacity)
    for each, asked in ((planner, known), (PLANNER, known)):
        found = each.plan(asked, full)
        assert found is not None
        assert found.decision.reason is ReasonCode.NO_ROOM
        assert "copy" not in found.decision.message
        assert "its program is known" in found.decision.message


def test_a_known_program_that_has_waited_as_long_as_it_runs_waits_for_less_room() -> None:
    planner, request, seen = _stated("auto")
    needs = replace(planner._needs, sizes=2, patience_seconds=60.0)
    planner = JointPlanner(planner._made, needs=needs)
    row = {Quantity.RATE: {1000: Entry(1.0, 0.03)}}
    known = replace(request, measurements=Measurements(row, total=1e4, platform="test"), now=1000.0)
    full = replace(seen, cpu_allocated=seen.cpu_capacity)
    waits = planner.plan(replace(known, waited_seconds=9_000.0), full)
    assert waits is not None
    assert (waits.decision.reason, waits.again_at) == (ReasonCode.NO_ROOM, 2000.0)
    placed = planner.plan(replace(known, waited_seconds=10_000.0), full)
    assert placed is not None
    assert placed.known


def test_what_would_end_before_its_profile_is_known_by_its_program() -> None:
    soon = replace(TARGETED, target=Target(completion_seconds=1.0))
    row = {Quantity.RATE: {1000: Entry(1.0, 0.03)}}
    request, seen = Request(soon), view(4000)
    cold = PLANNER.plan(request, seen)
    assert cold is not None
    assert (cold.known, cold.decision.message[-14:]) == (False, ": a cold start")
    known = replace(request, measurements=Measurements(row, total=1e4, platform="test"))
    for asked, is_known in ((known, True), (_best_effort(known), False)):
        found = PLANNER.plan(asked, seen)
        assert found is not None
        assert (found.plan, found.known) == (None, is_known)


def _best_effort(request: Request) -> Request:
    return replace(request, workload=replace(request.workload, type=WorkloadType.BEST_EFFORT))


def test_best_effort_work_is_run_on_idle_platforms_to_compare_them() -> None:
    stated, request, seen = _stated("all")
    needs = ProfilingNeeds(stated=True, sizes=2, sources=2, idle_share=0.5, best_effort=True)
    planner = JointPlanner(stated._made, ("known",), needs)
    request = _best_effort(replace(request, workload=replace(request.workload, target=None)))

    def plan(asked: Request = request, at: View = seen, by: JointPlanner = planner) -> Profiling:
        found = by.plan(asked, at)
        assert found is not None
        assert found.decision.accepted, "it waits for no room"
        return found

    found = plan().plan
    assert found is not None
    assert (found.cpu_millicpus, found.sources, found.beside) == ((1000,), (), ())
    assert len(found.placements) == 4, "with what it states, though it is promised no CPU"
    assert found.seconds == pytest.approx(0.1 * request.workload.profile.seconds)

    taken = seen.cpu_allocated.copy()
    taken[[0, 2]] = 1
    beside = plan(at=replace(seen, cpu_allocated=taken)).plan
    assert beside is not None
    assert {p.server for p in beside.placements} == {"one", "three"}, "no promise is pressed"
    full = plan(at=replace(seen, cpu_allocated=seen.cpu_capacity.copy()))
    assert (full.plan, full.decision.message[-14:]) == (None, ": a cold start")
    taken[1] = 1
    alone = plan(at=replace(seen, cpu_allocated=taken))
    assert alone.plan is None
    assert "no other platform has idle CPU" in alone.decision.message

    short = replace(request, workload=replace(request.workload, expected_seconds=20.0))
    assert "profiling takes 0.8 s of some 20" in plan(short).decision.message
    row = {Quantity.RATE: {1000: Entry(1.0, 0.03)}}
    known = plan(replace(request, measurements=Measurements(row, platform="test")))
    assert (known.plan, known.known) == (None, True)
    one = plan(at=view(4000, 4000))
    assert "to compare platforms, of which there is one" in one.decision.message
    never = JointPlanner(stated._made, needs=replace(needs, best_effort=False))
    assert plan(by=never).plan is None


def test_a_short_workload_is_not_profiled_first() -> None:
    planner, request, seen = _stated("auto")
    short = replace(request, workload=replace(request.workload, expected_seconds=15.0))

    def plan(share: float, asked: Request = short, view: View = seen) -> Profiling:
        needs = replace(planner._needs, start_first=share, beside=True)
        found = JointPlanner(planner._made, needs=needs).plan(asked, view)
        assert found is not None
        assert found.decision.accepted
        return found

    found = plan(0.35)
    assert found.plan is None
    assert "costs its target more than it tells" in found.decision.message
    assert not found.beside, "it may not be restarted"
    run = replace(short.workload.run, restartable=True)
    movable = replace(short, workload=replace(short.workload, run=run))
    assert plan(0.35, movable).beside
    copies = planner.beside(movable, seen)
    assert copies is not None
    assert copies.plan == planner.plan(request, seen).plan
    full = replace(seen, cpu_allocated=seen.cpu_capacity.copy())
    assert planner.beside(movable, full) is None
    assert plan(0.0).plan is not None, "it is switched off"
    taken = replace(seen, cpu_allocated=seen.cpu_capacity // 2)
    assert plan(0.35, view=taken).plan is not None, "CPU is scarce"


ENGINES = (SharedResource.INTEGER, SharedResource.TLB, SharedResource.MEMORY_BANDWIDTH)


@pytest.mark.parametrize(
    ("type_", "servers", "shares_cores", "count"),
    [
        (WorkloadType.LATENCY_CRITICAL, 2, True, 2),
        (WorkloadType.LATENCY_CRITICAL, 2, False, 0),
        (WorkloadType.SINGLE_NODE, 2, True, 0),
        (WorkloadType.SINGLE_NODE, 1, False, 2),
    ],
)
def test_a_plan_names_sources_of_the_engine_where_their_time_is_no_delay(
    type_: WorkloadType, servers: int, shares_cores: bool, count: int
) -> None:
    needs = ProfilingNeeds(stated=True, sizes=2, sources=0, service_sources=2)
    planner = JointPlanner(Classifications({Aspect.SCALE_UP: BY_CPU}, "gaussian"), needs=needs)
    service = Measure(load_command=("ab",))
    asked = replace(TARGETED, type=type_, measure=service)
    able = Capabilities(profiles=True, shares_cores=shares_cores, sources=ENGINES)
    named = set()
    for number in range(20):
        found = planner.plan(
            Request(replace(asked, name=f"w{number}")), view(*[2000] * servers, able=able)
        )
        assert found is not None
        assert found.plan is not None
        assert len(found.plan.sources) == count
        named |= set(found.plan.sources)
    assert named == (set(ENGINES) if count else set())
