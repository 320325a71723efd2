"""One plan through the interpreter, over a program whose performance is a formula."""

from dataclasses import replace
from math import inf

import pytest

from wharfinger.ibench.ramp import RampPlan, RampSample
from wharfinger.model.interference import SharedResource
from wharfinger.model.performance import Quantity
from wharfinger.model.profile import Entry, Measurements, ProfilingPlan
from wharfinger.profiling.interpreter import Interpreter
from wharfinger.profiling.observations import Observations
from wharfinger.profiling.procedure import COARSE, Procedure, cut_short, looks_for, ramp_plan
from wharfinger.profiling.scores import (
    CAPACITY_ERROR,
    SINGLE_ERROR,
    caused_by_sharing,
    caused_on_cpu,
    caused_on_device,
    mean,
    relative,
    tolerated,
    tolerated_of_few,
)
from wharfinger.profiling.steps import (
    Inject,
    Interruption,
    NeighborFell,
    ProgramEnded,
    ReadFor,
    RunAt,
    RunFailed,
    SourceSilent,
    Stretch,
    Withdraw,
)

RATE, LATENCY, THROUGHPUT = Quantity.RATE, Quantity.LATENCY, Quantity.THROUGHPUT
FIRST_MILLICPUS = 500
INTEGER, STORAGE = SharedResource.INTEGER, SharedResource.STORAGE_BANDWIDTH


class Formula:
    """A program of one CPU that loses its performance from an intensity of 50 on.

    Args:
        fails: Raised by the reading of that number, from 1.
        every_seconds: So often it tells its performance.
    """

    def __init__(
        self, fails: tuple[int, Interruption] | None = None, every_seconds: float = 0.0
    ) -> None:
        self._every_seconds = every_seconds
        self.steps: list[object] = []
        self._fails = fails
        self._reads = 0
        self._time = 0.0
        self._cpu = 0
        self._intensity = 0.0

    def run(self, step: RunAt) -> bool:
        self.steps.append(step)
        self._cpu, self._intensity = step.cpu_millicpus, 0.0
        return False

    def inject(self, step: Inject) -> float:
        self.steps.append(step)
        self._cpu = FIRST_MILLICPUS
        self._intensity = step.intensity
        return 0.0

    def withdraw(self, step: Withdraw) -> Entry | str | None:
        self.steps.append(step)
        self._intensity = 0.0
        if step.resource is INTEGER:
            return None
        return Entry(20.0) if step.slowed else "not slowed"

    def now(self) -> float:
        return self._time

    def why_silent(self) -> str:
        return "never"

    def read(self, wanted: ReadFor) -> Stretch | None:
        self._reads += 1
        if self._fails and self._reads == self._fails[0]:
            raise self._fails[1]
        rate = self._cpu / 100 * (1.0 if self._intensity < 50 else 0.5)
        seconds = max(1 / rate if wanted.seconds == inf else wanted.seconds, self._every_seconds)
        if self._time + seconds > wanted.until:
            return None
        self._time += seconds
        return Stretch(seconds, {RATE: rate}, self._cpu / 1000, neighbor=0.8)


def make_plan(*sources: SharedResource, seconds: float = 60.0) -> ProfilingPlan:
    return ProfilingPlan("s", (FIRST_MILLICPUS, 1000), 1 << 20, sources, seconds)


def measured(plan: ProfilingPlan, port: Formula, *, by_rate: bool = True) -> Measurements:
    procedure = Procedure.timed(
        plan.seconds, allocations=len(plan.cpu_millicpus), sources=len(plan.sources)
    )
    if not by_rate:
        procedure = Procedure.whole(plan.seconds)
    observations = Observations(plan, wanted=(RATE,), cpus=2, seen_at_source=frozenset({STORAGE}))
    Interpreter(plan, procedure, observations, port).complete(port.read)
    return observations.measurements(runs=1, seconds=port.now())


def test_the_source_comes_at_the_first_allocation_and_is_raised_until_performance_drops():
    port = Formula()
    found = measured(make_plan(STORAGE), port)
    assert {cpu: round(e.value, 9) for cpu, e in found.performance[RATE].items()} == {
        500: 5.0,
        1000: 10.0,
    }
    assert 25 <= found.tolerated[STORAGE].value <= 50
    assert found.caused[STORAGE].value == 20.0
    assert found.silent == {}
    kinds = [type(step) for step in port.steps]
    assert kinds.index(Withdraw) < len(kinds) - 1, "then comes the other allocation"
    assert isinstance(port.steps[0], RunAt) and port.steps[0].cpu_millicpus == 500


def test_each_source_is_a_probe_first_where_that_is_asked():
    plan, port = make_plan(INTEGER), Formula()
    observations = Observations(plan, wanted=(RATE,))
    Interpreter(plan, Procedure.probing(10.0, 1.0), observations, port).complete(port.read)
    assert observations.is_slowed(INTEGER)
    injected = [step.intensity for step in port.steps if isinstance(step, Inject)]
    assert injected[:4] == [0.0, 50.0, 0.0, 10.0]
    [withdrawn] = [step for step in port.steps if isinstance(step, Withdraw)]
    assert withdrawn.probed == [0.8] * 6


def test_whole_runs_are_timed_where_only_the_end_tells_anything():
    found = measured(make_plan(INTEGER, seconds=2.0), Formula(), by_rate=False)
    assert {cpu: round(e.value, 9) for cpu, e in found.performance[RATE].items()} == {
        500: 5.0,
        1000: 10.0,
    }
    assert found.total == 1.0
    assert 0 < found.tolerated[INTEGER].value < 100
    assert found.caused[INTEGER].value == 25.0


def test_a_program_that_tells_seldom_gets_the_time_that_it_needs():
    plan, port = ProfilingPlan("s", (500,), 1 << 20, (), 0.8), Formula(every_seconds=1.0)
    with pytest.raises(RunFailed, match="too few numbers in time"):
        measured(plan, port)
    found = measured(replace(plan, patience_seconds=8.0), port)
    assert found.performance[RATE][500].value == 5.0
    assert port.now() == 3.0


def test_a_program_that_ends_early_is_timed_by_its_work():
    ended = ProgramEnded(Stretch(2.0, {RATE: 50.0}), work=100.0)
    found = measured(make_plan(), Formula((2, ended)))
    assert found.total == 100.0
    assert set(found.performance[RATE]) == {500, 1000}


def test_no_source_follows_when_a_neighbor_has_fallen():
    port = Formula((14, NeighborFell("n")))
    found = measured(make_plan(STORAGE, INTEGER), port)
    assert INTEGER not in found.tolerated
    assert "n fell below its target" in found.silent["tolerated/storage-bandwidth"]
    assert found.silent["tolerated/integer"] == "n fell below its target beside storage-bandwidth"
    assert isinstance(port.steps[-2], Withdraw)
    assert set(found.performance[RATE]) == {500, 1000}


def test_a_silent_source_is_said_to_be_one_and_the_next_follows():
    class Mute(Formula):
        def inject(self, step: Inject) -> float:
            if step.resource is STORAGE:
                raise SourceSilent("no signal")
            return super().inject(step)

    found = measured(make_plan(STORAGE, INTEGER), Mute())
    silent = {"tolerated/storage-bandwidth": "no signal", "caused/storage-bandwidth": "no signal"}
    assert found.silent == silent
    assert INTEGER in found.tolerated


def test_one_value_says_nothing_of_its_noise():
    entry = mean([(1.0, 5.0)])
    assert entry is not None and entry.error == SINGLE_ERROR
    assert mean([]) is None
    assert mean([(1.0, 0.0)]) is None


def test_the_quantity_that_falls_most_counts():
    alone = {THROUGHPUT: 100.0, LATENCY: 0.01}
    assert relative({THROUGHPUT: 90.0, LATENCY: 0.02}, alone) == 0.5
    assert relative({RATE: 1.0}, alone) is None


@pytest.mark.parametrize(
    ("intensity", "performance", "value", "censored"),
    [(50.0, 1.0, 25.0, True), (25.0, 0.5, 2.5, False)],
)
def test_a_ramp_that_is_cut_short_is_a_bound_or_the_break_that_it_saw(
    intensity: float, performance: float, value: float, censored: bool
):
    samples = [RampSample(0.0, 1.0)] * 3
    samples += [RampSample(25.0, 1.0)] * 3 if intensity > 25 else []
    samples += [RampSample(intensity, performance)] * (1 if censored else 3)
    entry = tolerated(cut_short(RampPlan(levels=COARSE), samples))
    assert (entry.value, entry.censored) == (pytest.approx(value), censored)


def test_few_looks_interpolate():
    entry = tolerated_of_few({50.0: 0.99, 100.0: 0.89}, 0.05)
    assert entry.value == pytest.approx(70.0)
    assert tolerated_of_few({50.0: 0.99}, 0.05).censored


def test_how_a_ramp_is_planned_depends_on_the_time():
    assert ramp_plan(5, 0.05) is None
    assert looks_for(1) == (100.0,)
    coarse, fine = ramp_plan(20, 0.05), ramp_plan(60, 0.05)
    assert coarse is not None and coarse.levels == COARSE
    assert fine is not None and len(fine.levels) == 10


def test_caused_scores_are_from_0_to_100():
    assert caused_on_cpu([5.0], 2).value == 100
    shared = caused_by_sharing(100.0, [20.0])
    assert shared is not None and shared.value == 100
    assert caused_by_sharing(50.0, []) is None


def test_on_a_device_the_larger_of_own_use_and_share_counts():
    share = Entry(30.0)
    assert caused_on_device(1e6, 5e5, share) == Entry(50.0, 5.0)
    assert caused_on_device(1e6, 1e5, share) == share
    assert caused_on_device(1e6, 1e3, share) == Entry(0.1, 1.0), "too little: it lacked CPU time"
    assert caused_on_device(None, None, None) is None


@pytest.mark.parametrize(("seconds", "allocations", "sources"), [(2, 1, 0), (8, 2, 2), (60, 7, 2)])
def test_the_shares_make_up_the_whole(seconds: float, allocations: int, sources: int):
    procedure = Procedure.timed(seconds, allocations=allocations, sources=sources)
    shares = procedure.share_seconds * allocations + procedure.source_seconds * sources
    assert procedure.warm_up_seconds + shares == pytest.approx(seconds)
    assert 0.2 <= procedure.stretch_seconds <= 1.0


def test_a_service_is_told_by_what_it_could_answer_not_by_what_it_was_asked():
    answered = [Stretch(1.0, {THROUGHPUT: 40.0, LATENCY: 0.004})] * 9
    observations = Observations(make_plan(INTEGER))
    observations.add_performance(1000, answered, 0.1)
    observations.add_performance(1000, answered)  # Again, with what was seen later.
    observations.add_performance(500, answered, 0.47)
    found = observations.measurements(runs=1, seconds=8.0).performance
    assert found[THROUGHPUT][1000].value == pytest.approx(400)
    assert found[THROUGHPUT][1000].error == CAPACITY_ERROR
    assert found[THROUGHPUT][500].value == pytest.approx(40), "busy: it can do no more"
    assert [entry.value for entry in found[LATENCY].values()] == pytest.approx([0.004, 0.004])


def test_no_program_is_taken_to_use_more_than_one_cpu_if_it_was_not_seen_to():
    observations = Observations(make_plan())
    observations.add_performance(4000, [Stretch(1.0, {THROUGHPUT: 40.0})] * 9, 0.1)
    found = observations.measurements(runs=1, seconds=8.0).performance
    assert found[THROUGHPUT][4000].value == pytest.approx(400)
