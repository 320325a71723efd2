"""What a policy is told of the truth is the truth."""

import pytest

from wharfinger.core import events as ev
from wharfinger.errors import InvalidInput
from wharfinger.model.performance import Quantity
from wharfinger.simulator.informed import words_of
from wharfinger.simulator.run import RunSpec, Simulation, prepare
from wharfinger.simulator.truth.ground_truth import TrueResident

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
    with pytest.raises(InvalidInput, match="is not a policy"):
        prepare(RunSpec(SCENARIO, "true-everything+paragon", workloads=3))


def test_platforms_are_true_and_nothing_is_profiled():
    simulation, events = watched(ALL)
    assert not [each for each in events if isinstance(each, ev.ProfilingPlanned)]
    made = [each for each in events if isinstance(each, ev.WorkloadClassified)]
    assert len(made) == 6
    jobs = {job.name: job for job in simulation.setup.jobs}
    names = {e.key: e.name for e in events if isinstance(e, ev.ClassificationPlanned)}
    for each in made:
        job, told = jobs[names[each.key]], each.classification
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
        assert told.tolerated
        assert told.caused


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
