"""Whatever scenario is valid can be built, and what comes out adds up."""

from collections import Counter
from math import inf

from hypothesis import given
from hypothesis import strategies as st

from wharfinger.model.workload import LatencyBound, WorkloadType
from wharfinger.simulator.scenario.arrivals import Arrivals, Bursts, Pattern
from wharfinger.simulator.scenario.build import build
from wharfinger.simulator.scenario.distributions import Distribution, Shape
from wharfinger.simulator.scenario.loads import LoadModel, LoadShape
from wharfinger.simulator.scenario.population import apportion, class_counts
from wharfinger.simulator.scenario.scenario_types import PopulationClass, Scenario, ServerGroup
from wharfinger.simulator.scenario.setup import EngineAbility, Faults
from wharfinger.simulator.scenario.targets import Reservations, Share, TargetKind, TargetOf, Targets

SECONDS = st.floats(1.0, 10_000.0)
FRACTION = st.floats(0.0, 1.0)
RATE = st.floats(1.0, 5000.0)


@st.composite
def distributions(draw: st.DrawFn) -> Distribution:
    low, high = sorted([draw(SECONDS), draw(SECONDS)])
    return Distribution(
        draw(st.sampled_from(Shape)), draw(SECONDS), draw(st.floats(0.0, 2.0)), low, high
    )


@st.composite
def loads(draw: st.DrawFn) -> LoadModel:
    shape = draw(st.sampled_from(LoadShape))
    if shape is LoadShape.STEPS:
        times = sorted(draw(st.sets(SECONDS, max_size=3)))
        return LoadModel(shape, steps=tuple((at, draw(RATE)) for at in [0.0, *times]))
    base = draw(RATE)
    if shape is LoadShape.FLAT:
        return LoadModel(shape, base)
    return LoadModel(shape, base, base * draw(st.floats(1.0, 9.0)), draw(SECONDS), draw(SECONDS))


@st.composite
def classes(draw: st.DrawFn, name: str, *, counted: bool) -> PopulationClass:
    kind = draw(st.sampled_from(WorkloadType))
    serves = kind is WorkloadType.LATENCY_CRITICAL
    return PopulationClass(
        name,
        share=draw(st.floats(0.1, 9.0)),
        count=draw(st.integers(1, 20)) if counted else None,
        type=kind,
        applications=tuple(f"{name}-{number}" for number in range(draw(st.integers(0, 3)))),
        cpus_millicpus=tuple(draw(st.lists(st.integers(1, 64_000), min_size=1, max_size=3))),
        memory_bytes=tuple(draw(st.lists(st.integers(1, 2**30), min_size=1, max_size=3))),
        duration=draw(distributions()),
        lifetime=draw(distributions()) if serves else None,
        load=draw(loads()) if serves else None,
        latency=LatencyBound(99, 0.1) if serves else None,
        best_effort=0.0 if serves else draw(FRACTION),
    )


@st.composite
def arrivals(draw: st.DrawFn) -> Arrivals:
    pattern = draw(st.sampled_from(Pattern))
    if pattern is Pattern.AT_ONCE:
        return Arrivals(pattern)
    bursts = st.builds(Bursts, SECONDS, st.integers(1, 9), SECONDS)
    return Arrivals(
        pattern,
        every_seconds=draw(SECONDS),
        spread_seconds=draw(SECONDS) if pattern is Pattern.GAUSSIAN else 0.0,
        bursts=draw(st.none() | bursts),
    )


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    counted = draw(st.booleans())
    names = ["one", "two", "three"][: draw(st.integers(1, 3))]
    low, high = sorted([draw(st.floats(0.01, 1.0)), draw(st.floats(0.01, 1.0))])
    return Scenario(
        "any",
        servers=tuple(
            ServerGroup(
                name,
                draw(st.integers(1, 9)),
                draw(st.integers(1, 128)) * 1000,
                draw(st.integers(2**30, 2**40)),
                draw(st.floats(0.1, 5.0)),
                draw(st.integers(1, 3)),
            )
            for name in ["small", "big"][: draw(st.integers(1, 2))]
        ),
        population=tuple(draw(classes(name, counted=counted)) for name in names),
        workloads=draw(st.integers(1, 40)),
        arrivals=draw(arrivals() | st.builds(Arrivals, load=st.floats(0.1, 3.0))),
        targets=Targets(
            draw(st.sampled_from(TargetOf)), Share(low, high), draw(st.sampled_from(TargetKind))
        ),
        reservations=draw(st.none() | st.just(Reservations())),
        training=draw(FRACTION),
        faults=Faults(mtbf_seconds=draw(st.none() | st.floats(1e4, 1e6))),
        engine=draw(st.builds(EngineAbility, st.booleans(), st.booleans(), st.booleans())),
    )


@given(scenarios(), st.integers(0, 2**32), st.integers(1, 30), st.integers(1, 60))
def test_any_valid_scenario_builds(scenario: Scenario, seed: int, servers: int, workloads: int):
    setup = build(scenario, seed, servers, workloads)
    assert len(setup.servers) == len({server.name for server in setup.servers}) == servers
    assert len(setup.jobs) == len({job.name for job in setup.jobs}) == workloads
    counts = Counter(job.name.partition("-")[0] for job in setup.jobs)
    expected = class_counts(scenario, lambda _: workloads)
    assert [counts[each.name] for each in scenario.population] == expected
    stated = class_counts(scenario, lambda stated: stated)
    there = [count for count, whole in zip(expected, stated, strict=True) if whole]
    assert sum(expected) == workloads
    assert min(there) > 0 or max(expected) == 1
    times = [job.arrives_at for job in setup.jobs]
    assert times == sorted(times)
    assert all(0 <= at < inf for at in times)
    for job in setup.jobs:
        _check(setup, job)


def _check(setup, job) -> None:
    assert (job.work < inf) != job.is_service
    assert job.work > 0
    assert (job.lifetime_seconds < inf) == job.is_service
    target = job.workload.target
    if job.workload.best_effort:
        assert target is None
    if target is not None:
        stated = (target.rate_per_second, target.completion_seconds, target.latency)
        assert any(stated)
        assert all(value > 0 for value in stated[:2] if value is not None)
    for asked in (job.workload.reservation, job.stated):
        assert asked is None or (asked.cpu_millicpus > 0 and asked.memory_bytes > 0)
    if not setup.engine.fractional_cpu:
        assert job.workload.reservation.cpu_millicpus % 1000 == 0


@given(st.lists(st.floats(0.01, 100.0), min_size=1, max_size=8), st.integers(0, 1000))
def test_shares_of_a_whole_add_up_and_are_near_what_they_should_be(weights: list, total: int):
    counts = apportion(weights, total)
    assert sum(counts) == total
    whole = sum(weights)
    assert all(
        abs(count - weight * total / whole) < 1
        for count, weight in zip(counts, weights, strict=True)
    )
