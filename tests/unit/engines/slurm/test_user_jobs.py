"""Users' jobs: offered, let go and told; what is not for us, or can't be read, is left as it is."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.fake_slurm import FakeSlurm
from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.engines.notes import MemoryNotes
from wharfinger.engines.slurm import SlurmEngine, SlurmSettings, user_jobs
from wharfinger.engines.slurm.client.base import SlurmJob
from wharfinger.engines.slurm.comments import note_in
from wharfinger.engines.slurm.user_arrays import MOST_TASKS
from wharfinger.errors import EngineFault
from wharfinger.model.allocation import Allocation, Placement
from wharfinger.testing import EngineHarness, ShellPrograms
from wharfinger.testing.harness import EngineTrial

pytestmark = pytest.mark.slow  # Real programs take real time.

TARGET = "wharfinger: {target: {completionTime: 20m}}"


@pytest.fixture
def slurm(tmp_path: Path) -> Iterator[FakeSlurm]:
    fake = FakeSlurm(tmp_path)
    yield fake
    fake.close()


@pytest.fixture
def trial(slurm: FakeSlurm, tmp_path: Path) -> Iterator[EngineTrial]:
    (tmp_path / "shared").mkdir()
    notes = MemoryNotes()
    settings = SlurmSettings(
        shared_dir=tmp_path / "shared", poll_seconds=0.2, pending_seconds=0.5, lost_seconds=0.5
    )
    make_engine = lambda _state: SlurmEngine(slurm, notes, settings)  # noqa: E731
    with EngineHarness(tmp_path, make_engine, ShellPrograms(tmp_path)).trial() as trial:
        yield trial


def _job(slurm: FakeSlurm, job_id: int) -> SlurmJob:
    return next(job for job in slurm.jobs_now() if job.job_id == job_id)


def _offer(trial: EngineTrial, job_id: int | str) -> ev.WorkloadOffered:
    told: list[ev.WorkloadOffered] = []

    def is_told() -> bool:
        offers = [r for r in trial.reports if isinstance(r, ev.WorkloadOffered)]
        told[:] = [offer for offer in offers if offer.handle == f"job {job_id}"]
        return bool(told)

    trial.wait_until(is_told, f"offer of job {job_id}")
    return told[-1]


def _start(offer: ev.WorkloadOffered, key: str, server: str, cpus: int) -> act.StartWorkload:
    placement = Placement(server, Allocation(cpus * 1000, 64 << 20))
    return act.StartWorkload(key, offer.workload, (placement,), offer.handle)


def test_a_job_is_placed_on_its_node_with_its_cpus_and_ends_as_slurm_says(
    trial: EngineTrial, slurm: FakeSlurm
):
    number = slurm.hand_in("#!/bin/sh\nexit 3\n", TARGET, cpus=4)
    offer = _offer(trial, number)
    assert offer.workload.owner == "bob"
    assert offer.workload.target is not None
    assert offer.workload.target.completion_seconds == 1200
    assert offer.workload.reservation.cpu_millicpus == 4000
    trial.perform(_start(offer, "k", "n2", 2))
    trial.perform(act.AnnotateWorkload(offer.handle, "placement: fits", "on n2 with 2 CPUs"))
    trial.expect_status("k", 3)
    job = _job(slurm, number)
    assert (job.nodes, job.cpus) == (("n2",), 2)
    trial.wait_until(lambda: note_in(_job(slurm, number).comment), "the note")
    assert note_in(_job(slurm, number).comment) == "on n2 with 2 CPUs"
    assert _job(slurm, number).comment.startswith(TARGET)
    withdrawn = [r for r in trial.reports if isinstance(r, ev.OfferWithdrawn)]
    assert not withdrawn


def test_what_a_comment_would_have_run_is_not_run_here(
    trial: EngineTrial, slurm: FakeSlurm, tmp_path: Path
):
    mark = tmp_path / "mark"
    measure = f"measure: {{command: [touch, {mark}]}}"
    number = slurm.hand_in("#!/bin/sh\nexec sleep 600\n", f"{TARGET[:-1]}, {measure}}}")
    offer = _offer(trial, number)
    assert offer.workload.measure.command == ("touch", str(mark))
    trial.perform(_start(offer, "k", "n2", 1))
    trial.wait_for(ev.WorkloadStarted, "k")
    trial.perform(act.MeasureWorkload("k", offer.workload))
    (sample,) = trial.wait_for(ev.ServerMeasured).samples
    (silence,) = sample.silent.values()
    assert silence.reason == "a user's own job is not measured"
    trial.take_in(1.0)
    assert not mark.exists()


@pytest.mark.parametrize(
    ("comment", "more", "told"),
    [
        ("wharfinger: {", {}, "comment"),
        ("wharfinger: {target: {completionTime: soon}}", {}, "completionTime"),
        ("wharfinger: {}", {}, "target"),
        (TARGET, {"partition": "other"}, "partition 'other' is not placed"),
        (TARGET, {"required_nodes": ("n1",)}, "it states its nodes (n1)"),
        (TARGET, {"reservation": "class"}, "it states a reservation (class)"),
        (TARGET, {"features": "ssd|gpu"}, "its features (ssd|gpu) are more than names"),
        (TARGET, {"features": "[rack1*2]"}, "are more than names"),
    ],
)
def test_what_cannot_be_read_gets_one_line_and_stays(
    trial: EngineTrial, slurm: FakeSlurm, comment: str, more: dict, told: str
):
    number = slurm.hand_in("#!/bin/sh\nexit 0\n", comment, **more)
    trial.wait_until(lambda: note_in(_job(slurm, number).comment), "the note")
    note = note_in(_job(slurm, number).comment)
    assert note.startswith("not taken: ")
    assert told in note
    assert "\n" not in note
    updates = slurm.calls.count("update")
    trial.take_in(1.0)
    assert slurm.calls.count("update") == updates  # Once, not at every look.
    job = _job(slurm, number)
    assert (job.state, job.held) == ("PENDING", True)


def test_jobs_that_are_not_for_us_are_not_touched(trial: EngineTrial, slurm: FakeSlurm):
    numbers = [slurm.hand_in("#!/bin/sh\n", comment) for comment in ("", "mine", "{}", "x" * 10**6)]
    before = [_job(slurm, number) for number in numbers]
    trial.take_in(1.0)
    assert [_job(slurm, number) for number in numbers] == before
    assert not {"update", "hold", "cancel", "script"} & set(slurm.calls)


def test_without_the_right_to_alter_jobs_a_start_fails_and_the_job_stays(
    trial: EngineTrial, slurm: FakeSlurm
):
    slurm.forbids_updates = True
    number = slurm.hand_in("#!/bin/sh\nexit 0\n", TARGET)
    trial.perform(_start(_offer(trial, number), "k", "n1", 1))
    assert "permission denied" in trial.expect_refused("k", retryable=False).reason
    assert _job(slurm, number).held


def test_one_that_finds_no_room_is_held_again_and_offered_on(trial: EngineTrial, slurm: FakeSlurm):
    slurm.held_back = True
    number = slurm.hand_in("#!/bin/sh\nexit 0\n", TARGET, cpus=4)
    offer = _offer(trial, number)
    trial.perform(_start(offer, "k", "n1", 1))
    trial.expect_refused("k", retryable=True)
    job = _job(slurm, number)
    assert (job.state, job.held, job.required_nodes, job.cpus) == ("PENDING", True, (), 4)
    slurm.held_back = False
    trial.forget_reports()
    trial.wait_until(lambda: trial.engine.poll(0.3) or True, "a look")
    trial.reopen()
    trial.perform(_start(_offer(trial, number), "again", "n2", 1))
    trial.expect_status("again", 0)


def test_one_that_an_administrator_requeues_is_evicted_and_held(
    trial: EngineTrial, slurm: FakeSlurm
):
    number = slurm.hand_in("#!/bin/sh\nsleep 300\n", TARGET)
    trial.perform(_start(_offer(trial, number), "k", "n1", 1))
    trial.wait_for(ev.WorkloadStarted, "k")
    trial.take_in(0.5)
    slurm.requeue_behind(number)
    assert trial.wait_for(ev.WorkloadEvicted, "k").reason.startswith("requeued: ")
    trial.wait_until(lambda: _job(slurm, number).held, "the hold")
    assert _job(slurm, number).state == "PENDING"


def test_a_target_that_its_user_changes_is_offered_again(trial: EngineTrial, slurm: FakeSlurm):
    number = slurm.hand_in("#!/bin/sh\nexit 0\n", TARGET)
    first = _offer(trial, number)
    slurm.update(number, {"Comment": TARGET.replace("20m", "30m")})
    trial.wait_until(lambda: _offer(trial, number) != first, "the changed offer")
    assert _offer(trial, number).workload.target == replace(
        first.workload.target, completion_seconds=1800.0
    )
    slurm.update(number, {"Comment": "no more"})
    assert trial.wait_for(ev.OfferWithdrawn).name == f"slurm-{number}"


def test_features_that_a_job_states_are_required(trial: EngineTrial, slurm: FakeSlurm):
    number = slurm.hand_in("#!/bin/sh\nexit 0\n", TARGET, features="ssd&cpu:zen3")
    requires = _offer(trial, number).workload.requires
    assert [str(r) for r in requires] == ["slurm/feature.ssd=yes", "slurm/feature.cpu=zen3"]


@pytest.mark.parametrize("last", ["update", "release"])
def test_an_engine_that_dies_over_a_placement_offers_the_job_as_its_user_left_it(
    trial: EngineTrial, slurm: FakeSlurm, last: str
):
    number = slurm.hand_in("#!/bin/sh\nexit 3\n", TARGET, cpus=4)
    offer = _offer(trial, number)
    update = slurm.update

    def die(job_id: int, fields: dict[str, str], task: int | None) -> None:
        update(job_id, fields, task)
        raise EngineFault("the manager was killed", retryable=True)

    if last == "update":
        slurm.update = die  # type: ignore[assignment]
    else:
        slurm.held_back = True
    trial.perform(_start(offer, "k", "n2", 1))
    trial.wait_until(lambda: _job(slurm, number).cpus == 1, "its placement")
    trial.forget_reports()
    trial.engine.close()
    slurm.update = update  # type: ignore[assignment]
    trial.open()
    if last == "update":
        assert _offer(trial, number) == offer
        trial.perform(_start(offer, "k", "n2", 1))
        trial.expect_status("k", 3)
    else:
        trial.expect_refused("k", retryable=True)
        trial.wait_until(lambda: _job(slurm, number).cpus == 4, "its own CPUs")
        trial.reopen()
        assert _offer(trial, number) == offer


def test_many_are_read_by_several_looks_and_offered_once(
    trial: EngineTrial, slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(user_jobs, "MAX_READ", 4)
    numbers = [slurm.hand_in(f"#!/bin/sh\nexit {n}\n", TARGET) for n in range(10)]
    for number in numbers:
        _offer(trial, number)
    assert slurm.calls.count("script") == len(numbers)
    calls = slurm.calls
    reads = [calls[: at + 1].count("nodes") for at, name in enumerate(calls) if name == "script"]
    assert max(map(reads.count, reads)) <= 4
    trial.forget_reports()
    trial.reopen()
    assert len(trial.wait_for(ev.EngineSynced).offers) == len(numbers)


# --- arrays, and jobs of several nodes ------------------------------------------------------------


def _tasks(slurm: FakeSlurm, array: int) -> dict[int, SlurmJob]:
    jobs = (job for job in slurm.jobs_now() if job.array_id == array)
    return {job.task_id: job for job in jobs if job.task_id is not None}


def test_tasks_of_an_array_are_workloads_of_one_template(trial: EngineTrial, slurm: FakeSlurm):
    array = slurm.hand_in("#!/bin/sh\nexit 3\n", TARGET, array_tasks="0-2%2")
    offers = [_offer(trial, f"{array}_{task}") for task in range(3)]
    assert [offer.workload.name for offer in offers] == [f"slurm-{array}-{n}" for n in range(3)]
    members = [offer.workload.array for offer in offers]
    assert [(m.name, m.index, m.at_once) for m in members if m] == [
        (f"slurm-{array}", n, 2) for n in range(3)
    ]
    assert all(offer.workload.run == offers[0].workload.run for offer in offers)
    assert slurm.calls.count("script") == 1
    trial.perform(act.AnnotateWorkload(offers[0].handle, "queue: no-room", "waits for room"))
    trial.wait_until(lambda: note_in(_job(slurm, array).comment), "the note")
    for task in (1, 2, 0):  # The last has the array's own number.
        placed = act.AnnotateWorkload(offers[task].handle, "placement: ok", f"{task} on n2")
        trial.perform(placed, _start(offers[task], f"k{task}", "n2", 1))
        trial.expect_status(f"k{task}", 3)
        trial.wait_until(
            lambda task=task: note_in(_tasks(slurm, array)[task].comment) == f"{task} on n2",
            f"the note of task {task}",
        )
    assert {n: (j.nodes, j.state) for n, j in _tasks(slurm, array).items()} == dict.fromkeys(
        range(3), (("n2",), "FAILED")
    )
    assert not [r for r in trial.reports if isinstance(r, ev.OfferWithdrawn)]


def test_of_ten_thousand_tasks_a_few_are_offered_at_a_time(trial: EngineTrial, slurm: FakeSlurm):
    array = slurm.hand_in("#!/bin/sh\nexit 0\n", TARGET, array_tasks="0-9999")
    offer = _offer(trial, f"{array}_5")
    offered = lambda: {r.handle for r in trial.reports if isinstance(r, ev.WorkloadOffered)}  # noqa: E731
    assert offered() == {f"job {array}_{task}" for task in range(MOST_TASKS)}
    trial.perform(_start(offer, "k", "n1", 1))
    trial.expect_status("k", 0)
    trial.wait_until(lambda: f"job {array}_{MOST_TASKS}" in offered(), "the next task's offer")
    assert slurm.calls.count("script") <= 2


def test_an_engine_that_dies_over_a_task_offers_it_as_its_user_left_it(
    trial: EngineTrial, slurm: FakeSlurm
):
    array = slurm.hand_in("#!/bin/sh\nexit 3\n", TARGET, array_tasks="0-9", cpus=4)
    offer = _offer(trial, f"{array}_4")

    def die(name: str) -> None:
        if name == "jobs" and slurm.calls.count("update"):
            raise EngineFault("the manager was killed", retryable=True)

    slurm.before = die
    trial.perform(_start(offer, "k", "n2", 1))
    trial.wait_until(lambda: slurm.calls.count("update"), "its placement")
    trial.take_in(0.2)
    trial.engine.close()
    slurm.before = lambda name: None
    trial.open()
    assert _offer(trial, f"{array}_4") == offer
    trial.perform(_start(offer, "k", "n1", 2))
    trial.expect_status("k", 3)
    task = _tasks(slurm, array)[4]
    assert (task.nodes, task.cpus) == (("n1",), 2)


def test_a_job_of_several_nodes_is_placed_on_as_many(trial: EngineTrial, slurm: FakeSlurm):
    number = slurm.hand_in("#!/bin/sh\nexit 3\n", TARGET, cpus=4, node_count=2)
    offer = _offer(trial, number)
    assert offer.limits is not None
    assert offer.limits.max_servers == offer.workload.scale.max_servers == 2
    assert offer.workload.reservation.cpu_millicpus == 2000
    placements = tuple(Placement(name, Allocation(1000, 64 << 20)) for name in ("n1", "n2"))
    trial.perform(act.StartWorkload("k", offer.workload, placements, offer.handle))
    trial.expect_status("k", 3)
    job = _job(slurm, number)
    assert (job.nodes, job.cpus) == (("n1", "n2"), 2)
