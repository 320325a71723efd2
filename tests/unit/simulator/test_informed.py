"""What a policy is told of the truth is the truth."""

from dataclasses import replace
from math import log
from random import Random

import pytest

from wharfinger.core import events as ev
from wharfinger.core.seams.contention import Resident
from wharfinger.errors import InvalidInput
from wharfinger.model.performance import Quantity
from wharfinger.model.profile import Classification
from wharfinger.model.view import Request
from wharfinger.simulator.pieces import PIECES, words_of
from wharfinger.simulator.run import RunSpec, Simulation, prepare
from wharfinger.simulator.scenario.jobs import Job
from wharfinger.simulator.true_contention import TrueContention
from wharfinger.simulator.truth.ground_truth import TrueResident
from wharfinger.testing.policy import make_view

SCENARIO = "paragon-local-low"
ALL = "true-scores+true-platforms+no-profiling+paragon"


def watched(policy: str, workloads: int = 6) -> tuple[Simulation, list[ev.Event]]:
    simulation = prepare(RunSpec(SCENARIO, policy, seed=1, servers=12, workloads=workloads))
    events: list[ev.Event] = []
    inner = simulation.driver._log

    def log(now: float, those: object) -> None:
        events.extend(those)  # type: ignore[arg-type]
        inner(now, those)  # type: ignore[arg-type]

    simulation.driver._log = log  # type: ignore[method-assign]
    simulation.run()
    return simulation, events


def test_pieces_stand_before_a_name():
    assert words_of("paragon") == (frozenset(), "paragon")
    assert words_of(ALL)[1] == "paragon"
    with pytest.raises(InvalidInput) as caught:
        prepare(RunSpec(SCENARIO, "stated+true-everything+paragon[confidence=0.5]", workloads=3))
    assert str(caught.value).startswith("--policy: 'true-everything' in 'stated+true-everything+p")
    assert str(caught.value).endswith(f"; there are {', '.join(PIECES)}")


@pytest.mark.slow
def test_platforms_are_true_and_nothing_is_profiled():
    simulation, events = watched(ALL)
    assert not [each for each in events if isinstance(each, ev.ProfilingPlanned)]
    made = [each for each in events if isinstance(each, ev.WorkloadClassified)]
    assert len(made) == 6
    jobs = {job.name: job for job in simulation.setup.jobs}
    names = {e.key: e.name for e in events if isinstance(e, ev.ClassificationPlanned)}
    for each in made:
        job, told = jobs[names[each.key]], each.classification
        assert len(told.platforms) > 5
        for platform, ratio in told.platforms.items():
            cpu = min(
                job.cpu_millicpus,
                *(s.cpu_millicpus for s in simulation.setup.servers if s.platform.name == platform),
            )
            resident = TrueResident(job.application, float(cpu), job.memory_bytes)
            here = simulation.setup.truth.alone(told.platform, resident)
            there = simulation.setup.truth.alone(platform, resident)
            assert ratio.mean == pytest.approx(there / here)
        assert Quantity.RATE in told.curves
        assert told.scores_measured
        assert len(told.tolerated) == len(told.caused) > 2


def test_one_a_server_never_shares_one():
    _, events = watched("one-a-server+least-loaded", workloads=20)
    here: set[str] = set()
    placed: dict[str, str] = {}
    for each in events:
        if isinstance(each, ev.WorkloadPlaced):
            (placement,) = each.placements
            assert placement.server not in here
            here.add(placement.server)
            placed[each.key] = placement.server
        elif isinstance(each, ev.WorkloadFinished):
            here.discard(placed.get(each.key, ""))
    assert len(placed) == 20


def test_contention_is_what_neighbors_take():
    setup = prepare(RunSpec(SCENARIO, "least-loaded", seed=1, servers=12, workloads=12)).setup
    largest = max(setup.servers, key=lambda server: server.cpu_millicpus).platform
    jobs = sorted(setup.jobs, key=lambda job: (job.cpu_millicpus, job.memory_bytes))[:3]
    true = [
        TrueResident(
            job.application, float(min(job.cpu_millicpus, largest.cpu_millicpus)), job.memory_bytes
        )
        for job in jobs
    ]
    here = [
        Resident(job.name, uid, Classification("", ""), False, 0.05) for uid, job in enumerate(jobs)
    ]
    table, view = TrueContention(setup).table(), make_view(Random(1), 2)
    assert table.put(1, largest.name, here[:2])
    assert not table.put(1, largest.name, here[:2])
    found = table.assess(Request(jobs[2].workload), view, 0.8)

    among = setup.truth.rates(largest.name, true)
    before = setup.truth.rates(largest.name, true[:2])
    expected = log(setup.truth.alone(largest.name, true[2]) / among[2])
    assert found.suffered.mean.tolist() == pytest.approx([0.0, expected])
    lost = sum(max(0.0, log(b / a)) for b, a in zip(before, among, strict=False))
    assert found.residents_loss().performance.tolist() == pytest.approx([0.0, lost])

    table.drop(0)
    assert table.assess(Request(jobs[2].workload), view, 0.8).suffered.mean[0] == expected


@pytest.mark.long
def test_contention_stands_before_a_name():
    simulation, events = watched("true-contention+paragon", workloads=20)
    assert isinstance(simulation.manager.policy.contention, TrueContention)
    assert len([each for each in events if isinstance(each, ev.WorkloadFinished)]) == 20


def told_of(
    policy: str, workloads: int = 12
) -> tuple[Simulation, list[tuple[Job, Classification]]]:
    """All that the policy is told of jobs, on EC2."""
    simulation = prepare(RunSpec("quasar-ec2", policy, seed=1, servers=8, workloads=workloads))
    asked: list[tuple[str, Classification]] = []
    classify = simulation._estimates.classify

    def watch(action):  # type: ignore[no-untyped-def]
        report = classify(action)
        if isinstance(report, ev.WorkloadClassified):
            asked.append((action.workload.name, report.classification))
        return report

    simulation._estimates = replace(simulation._estimates, classify=watch)
    simulation.run()
    jobs = {job.name: job for job in simulation.setup.jobs if not job.is_service}
    return simulation, [(jobs[name], made) for name, made in asked if name in jobs]


@pytest.mark.long
def test_sizes_and_several_servers_are_true_on_the_platform_that_was_classified():
    simulation, told = told_of("true-sizes+true-servers+quasar")
    truth = simulation.setup.truth
    sizes = {s.platform.name: s.cpu_millicpus for s in simulation.setup.servers}
    assert len({made.platform for job, made in told if job.workload.scale.max_servers > 1}) > 1
    for job, made in told:
        own = made.curves[Quantity.RATE]
        for cpu, estimate in zip(own.cpu_millicpus, own.estimates, strict=True):
            resident = TrueResident(job.application, float(cpu), job.memory_bytes)
            assert estimate.mean == pytest.approx(truth.alone(made.platform, resident))
        assert list(made.servers) == list(range(1, job.workload.scale.max_servers + 1))
        cpu = float(min(job.cpu_millicpus, sizes[made.platform]))
        one, *more = (
            count
            * truth.alone(
                made.platform, TrueResident(job.application, cpu, job.memory_bytes, servers=count)
            )
            for count in made.servers
        )
        scaled = [made.servers[count].mean for count in made.servers]
        assert scaled == pytest.approx([1.0, *(rate / one for rate in more)])


@pytest.mark.long
def test_true_sizes_of_an_unknown_platform_are_told_of_one():
    _, told = told_of("true-sizes+no-profiling+quasar", 4)
    assert told
    assert all(made.platform for _, made in told)


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["oracle", "no-reaction+oracle"])
def test_nothing_that_runs_is_changed_without_reaction(policy: str):
    simulation = prepare(RunSpec("services", policy, seed=2, servers=5, workloads=12))
    seen: list[ev.Event] = []
    inner = simulation.driver._log

    def log(now: float, those: object) -> None:
        seen.extend(those)  # type: ignore[arg-type]
        inner(now, those)  # type: ignore[arg-type]

    simulation.driver._log = log  # type: ignore[method-assign]
    simulation.run()
    assert any(isinstance(each, ev.WorkloadStarted) for each in seen)
    changed = any(isinstance(each, ev.AllocationPlanned) for each in seen)
    assert changed == (policy == "oracle")
