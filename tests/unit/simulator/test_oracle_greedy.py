"""The oracle where no pairs are known: no better place is to be had for one workload at a time."""

from dataclasses import replace
from itertools import product

import pytest

from tests.support import slow
from tests.support.physical import APPLICATIONS, batch, drawn, ec2, physics, service, setup
from tests.support.simulations import Watch
from wharfinger.core.state import WorkloadRecord
from wharfinger.model.allocation import Allocation, Placement
from wharfinger.model.decisions import Decision, Place, ReasonCode, Refuse, Stage
from wharfinger.model.view import Request, View
from wharfinger.policies.placement.common import ByReservation
from wharfinger.policies.registry import make_policy
from wharfinger.simulator import run as simulated
from wharfinger.simulator.oracle.demand import Knowledge
from wharfinger.simulator.policies import Estimates
from wharfinger.simulator.results.outcome import Outcome
from wharfinger.simulator.run import RunSpec, Simulation
from wharfinger.simulator.scenario.jobs import Job, Load
from wharfinger.simulator.scenario.setup import Setup
from wharfinger.simulator.truth.ground_truth import TrueResident

BIG = "cr1.8xlarge"


class Scripted(ByReservation):
    """Each workload goes where it is told, and gets what it reserves, or all that is there."""

    name = "scripted"

    def __init__(self, rows: dict[str, int]) -> None:
        self._rows = rows

    def place(self, request: Request, view: View) -> Place | Refuse:
        row, need = self._rows[request.workload.name], request.reserved(view.capabilities)
        need = replace(need, cpu_millicpus=min(need.cpu_millicpus, int(view.cpu_capacity[row])))
        room = view.cpu_capacity[row] - view.cpu_allocated[row] >= need.cpu_millicpus
        reason = ReasonCode.OK if room else ReasonCode.NO_ROOM
        decision = Decision(Stage.PLACEMENT, self.name, bool(room), reason, "as told")
        return Place((Placement(view.names[row], need),), decision) if room else Refuse(decision)


def run(world: Setup, policy: str = "oracle") -> Outcome:
    return Simulation(world, RunSpec("physical", policy)).run()


def kept(outcome: Outcome) -> int:
    return sum(fate.kept for fate in outcome.fates)


def records(world: Setup) -> tuple[Simulation, dict[str, WorkloadRecord]]:
    """Of all, as they were when it was over; each event was looked at."""
    watch = Watch(Simulation(world, RunSpec("physical", "oracle", keep_ended=10_000)))
    watch.run()
    return watch.simulation, watch.simulation.manager.state.workloads


def placed(record: WorkloadRecord) -> Decision:
    return [
        each.decision
        for each in record.decisions
        if each.decision.stage is Stage.PLACEMENT and each.decision.accepted
    ][-1]


# --- against every placement there is -----------------------------------------------------------


@pytest.mark.long
def test_few_placements_of_all_keep_more_targets(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = [("m1.xlarge", 1), ("m2.2xlarge", 1), ("m3.xlarge", 1)]
    best = found = least_loaded = 0
    for seed in range(2):
        world = drawn(counts, 4, 60.0, 900.0, seed)
        found += kept(run(world))
        least_loaded += kept(run(world, "least-loaded"))
        names = [job.name for job in world.jobs]
        most = 0
        for rows in product(range(3), repeat=len(names)):
            script = Scripted(dict(zip(names, rows, strict=True)))
            policy = replace(make_policy("reservation"), placement=script)
            estimates = Estimates(policy, lambda _: pytest.fail("nothing to classify"))
            with monkeypatch.context() as patched:
                patched.setattr(simulated, "estimates_for", lambda *_, e=estimates, **__: e)
                most = max(most, kept(run(world, "scripted")))
        best += most
    assert least_loaded < found <= best
    assert found >= 0.7 * best  # it is greedy


@pytest.mark.parametrize("seed", range(8))
def test_of_servers_that_are_alike_none_costs_fewer_targets(seed: int) -> None:
    """One more comes to three servers on which somebody is; all last for long."""
    applications = [APPLICATIONS[(seed * 5 + at * 3) % 12].name for at in range(7)]
    truth = physics([(BIG, 3)])
    jobs = [batch(truth, f"j{n}", name, 10.0 * n, 1e6) for n, name in enumerate(applications)]
    simulation = Simulation(setup([(BIG, 3)], jobs, truth), RunSpec("physical", "oracle"))
    simulation.start()
    _go_on(simulation, jobs[-1].arrives_at - 1)
    before = _who(simulation, 3)
    _go_on(simulation, jobs[-1].arrives_at)
    (row,) = [r for r, (old, new) in enumerate(zip(before, _who(simulation, 3), strict=True))
              if old != new]  # fmt: skip
    newest = jobs[-1]
    missed = [_missed(simulation, [*each, newest]) - _missed(simulation, each) for each in before]
    assert missed[row] == min(missed)


def _go_on(simulation: Simulation, until: float) -> None:
    while (due := simulation.loop.peek()) is not None and due <= until:
        simulation.step()


def _who(simulation: Simulation, servers: int) -> list[list[Job]]:
    manager, jobs = simulation.manager, simulation.cluster.jobs
    return [
        [jobs[record.name] for record in manager.residents_of(f"{BIG}-{at}")]
        for at in range(servers)
    ]


def _missed(simulation: Simulation, jobs: list[Job]) -> int:
    """How many fall more than 5% behind what they do alone; by the ground truth, nothing else."""
    truth = simulation.setup.truth
    there = [TrueResident(j.application, float(j.cpu_millicpus), j.memory_bytes) for j in jobs]
    rates = truth.rates(BIG, there) if there else []
    best = [truth.most(BIG, job.application) for job in jobs]
    return sum(rate < 0.95 * alone for rate, alone in zip(rates, best, strict=True))


@pytest.mark.long
@pytest.mark.parametrize("seed", [0, *slow(range(1, 4))])
def test_it_keeps_more_than_least_loaded(seed: int) -> None:
    for every_seconds in (10.0, 25.0, 60.0):
        world = drawn(ec2(28), 120, every_seconds, 1500.0, seed)
        oracle, least_loaded = run(world), run(world, "least-loaded")
        assert kept(oracle) >= kept(least_loaded)
        assert not oracle.summary["unfinished"]


# --- what must always hold ----------------------------------------------------------------------


def mixed(seed: int) -> Setup:
    """Of everything: jobs, those that may be spread, services, best-effort work."""
    counts = [("m1.small", 2), ("m3.xlarge", 2), ("m2.4xlarge", 2), ("hi1.4xlarge", 1)]
    truth = physics(counts)
    load = Load((0.0, 200.0, 400.0), (300.0, 1500.0, 100.0))
    jobs = [
        *drawn(counts, 30, 20.0, 300.0, seed, of_best=0.6 + 0.1 * (seed % 5)).jobs,
        *(batch(truth, f"f{n}", "streaming", 25.0 * n, 200.0, best_effort=True) for n in range(8)),
        *(batch(truth, f"d{n}", "eight", 40.0 * n, 300.0, of_best=2.0, servers=4)
          for n in range(4)),
        *(service(f"s{n}", 100.0 * n, 600.0, load) for n in range(4)),
    ]  # fmt: skip
    return setup(counts, jobs, truth)


@pytest.mark.parametrize("seed", range(4))
def test_capacity_is_never_exceeded_and_all_end(seed: int) -> None:
    simulation, _ = records(mixed(seed))
    fates = simulation.fates()
    assert all(fate.end in ("completed", "revoked") for fate in fates)


def test_every_decision_says_why() -> None:
    _, workloads = records(mixed(1))
    for record in workloads.values():
        for decision in (each.decision for each in record.decisions):
            assert decision.message
            if decision.stage is not Stage.PLACEMENT:
                continue
            assert decision.decided_by == "oracle"
            if decision.accepted:
                # Best-effort work on a full server has nothing, for now.
                beside = decision.candidates[0].numbers["performance_beside_residents"]
                assert beside > 0 or record.workload.best_effort
                assert decision.candidates[0].score is not None
                resized = any(each.decision.stage is Stage.ADAPTATION for each in record.decisions)
                assert decision.considered >= (1 if resized else len(record.placements))
            else:
                assert decision.would_change
        if record.workload.target is not None and record.placements:
            assert placed(record).predicted is not None


@pytest.mark.slow
def test_the_same_run_twice_is_the_same() -> None:
    assert run(mixed(2)).fates == run(mixed(2)).fates


# --- what it sees -------------------------------------------------------------------------------


def test_those_who_are_only_starting_are_seen() -> None:
    counts = [("e5-2670", 2)]
    truth = physics(counts)
    jobs = [batch(truth, f"j{n}", "streaming", 0.0, 1000.0) for n in range(2)]
    _, workloads = records(setup(counts, jobs, truth))
    servers = [record.placements[0].server for record in workloads.values()]
    assert len(set(servers)) == 2


def test_a_neighbour_that_would_cost_a_target_is_avoided() -> None:
    counts = [("m1.large", 2)]
    truth = physics(counts)
    jobs = [
        batch(truth, "first", "streaming", 0.0, 1000.0),
        batch(truth, "quiet", "plain", 1.0, 1000.0),
        batch(truth, "second", "plain", 2.0, 1000.0),
    ]
    outcome = run(setup(counts, jobs, truth))
    assert kept(outcome) == 3


def test_best_effort_work_waits_where_it_would_cost_a_target() -> None:
    counts = [("m1.large", 1)]
    truth = physics(counts)
    jobs = [
        batch(truth, "work", "streaming", 0.0, 500.0),
        batch(truth, "filler", "streaming", 10.0, 100.0, best_effort=True),
    ]
    simulation, workloads = records(setup(counts, jobs, truth))
    work, filler = simulation.fates()
    assert work.kept
    assert work.ended_at is not None
    assert filler.wait_seconds > work.ended_at - 11
    reasons = [each.decision.reason for each in workloads["filler"].decisions]
    assert ReasonCode.INTERFERENCE in reasons


def test_what_is_done_already_counts() -> None:
    counts = [("m3.xlarge", 1)]
    truth = physics(counts)
    job = batch(truth, "half", "plain", 0.0, 1000.0)
    wants = Knowledge(setup(counts, [job], truth)).wants("half")
    assert wants is not None
    rate = job.work / 1000.0
    assert wants.needed(0.0, 0.0) == pytest.approx(0.95 * rate)
    assert wants.needed(job.work / 2, 500.0) < 0.95 * rate
    assert wants.needed(job.work / 2, 600.0) > rate
    assert wants.needed(job.work / 2, 1100.0) == float("inf")


def test_without_a_target_the_fastest_free_server_is_taken() -> None:
    counts = [("m1.small", 3), ("m3.xlarge", 1)]
    truth = physics(counts)
    job = batch(truth, "free", "plain", 0.0, 100.0)
    free = replace(job, workload=replace(job.workload, target=None))
    _, workloads = records(setup(counts, [free], truth))
    assert [placement.server for placement in workloads["free"].placements] == ["m3.xlarge-0"]


# --- sizes --------------------------------------------------------------------------------------


def test_a_modest_target_gets_no_more_than_it_takes() -> None:
    counts = [("m2.4xlarge", 1)]
    truth = physics(counts)
    jobs = [
        batch(truth, "modest", "eight", 0.0, 500.0, of_best=0.4),
        batch(truth, "other", "eight", 1.0, 500.0, of_best=0.4),
    ]
    simulation, workloads = records(setup(counts, jobs, truth))
    assert all(fate.kept for fate in simulation.fates())
    for record in workloads.values():
        assert record.placements[0].allocation.cpu_millicpus <= 4000


def test_a_service_is_sized_for_the_most_that_it_will_be_asked() -> None:
    counts = [("m2.4xlarge", 2)]
    steady = service("steady", 0.0, 900.0, Load((0.0,), (300.0,)))
    grows = service("grows", 1.0, 900.0, Load((0.0, 450.0), (300.0, 2000.0)))
    simulation, workloads = records(setup(counts, [steady, grows]))
    given = {name: _cpu(record.placements) for name, record in workloads.items()}
    assert given["grows"] > given["steady"]
    assert all(fate.kept for fate in simulation.fates())


def test_several_servers_serve_what_one_can_not() -> None:
    counts = [("m1.large", 1), ("m3.xlarge", 4)]
    asked = Load((0.0,), (6000.0,))
    many, one = service("many", 0.0, 600.0, asked), service("one", 0.0, 600.0, asked, servers=1)
    simulation, workloads = records(setup(counts, [many]))
    placements = workloads["many"].placements
    assert 1 < len(placements) <= 4
    assert all(placement.server.startswith("m3") for placement in placements)
    assert all(fate.kept for fate in simulation.fates())
    assert not kept(run(setup(counts, [one])))


# --- while it runs -------------------------------------------------------------------------------


def held(world: Setup, name: str) -> dict[float, tuple[int, int]]:
    """CPU and the number of servers of a workload, by the time of the event that gave it them."""
    simulation = Simulation(world, RunSpec("physical", "oracle"))
    simulation.start()
    given: dict[float, tuple[int, int]] = {}
    while not simulation.is_over() and simulation.loop.peek() is not None:
        simulation.step()
        record = simulation.manager.state.workloads.get(name)
        if record is not None and record.placements and not record.ended:
            now = _cpu(record.placements), len(record.placements)
            if not given or now != given[max(given)]:
                given[simulation.loop.now] = now
    return given


def at(given: dict[float, tuple[int, int]], seconds: float) -> tuple[int, int]:
    return given[max(time for time in given if time <= seconds)]


def test_a_service_has_what_it_is_asked_before_it_is() -> None:
    load = Load((0.0, 300.0, 600.0), (300.0, 2000.0, 300.0))
    world = setup([("m2.4xlarge", 2)], [service("steps", 0.0, 900.0, load)])
    given = held(world, "steps")
    (low, _), (high, _), (after, _) = (at(given, seconds) for seconds in (290.0, 300.0, 890.0))
    assert low == after < high
    assert kept(run(world))


def test_a_service_goes_out_and_comes_back_in() -> None:
    load = Load((0.0, 300.0, 600.0), (500.0, 6000.0, 500.0))
    world = setup([("m3.xlarge", 4)], [service("steps", 0.0, 900.0, load)])
    given = held(world, "steps")
    assert [at(given, seconds)[1] for seconds in (290.0, 890.0)] == [1, 1]
    assert at(given, 300.0)[1] > 1
    assert kept(run(world))


def test_a_job_that_is_short_grows_when_room_comes() -> None:
    counts = [("m2.4xlarge", 1)]
    truth = physics(counts)
    jobs = [
        batch(truth, "first", "eight", 0.0, 200.0, of_best=0.7, servers=2),
        batch(truth, "second", "eight", 1.0, 1000.0, of_best=0.7, servers=2),
    ]
    given = held(setup(counts, jobs, truth), "second")
    assert at(given, 150.0)[0] < at(given, 500.0)[0]
    fates = records(setup(counts, jobs, truth))[0].fates()
    assert all(fate.kept for fate in fates)


def test_what_was_done_before_a_resize_counts_after_it() -> None:
    """Its due time is known: grown once, it needs no more."""
    counts = [("m3.xlarge", 3)]
    truth = physics(counts)
    jobs = [
        batch(truth, "first", "eight", 0.0, 300.0, servers=2),
        batch(truth, "second", "eight", 1.0, 1500.0, of_best=1.6, servers=3),
    ]
    simulation, _ = records(setup(counts, jobs, truth))
    given = held(setup(counts, jobs, truth), "second")
    assert len(given) <= 3
    assert simulation.fates()[1].kept


def _cpu(placements: tuple[Placement, ...]) -> int:
    allocations: list[Allocation] = [placement.allocation for placement in placements]
    return sum(allocation.cpu_millicpus for allocation in allocations)
