"""Tasks of users' arrays: each is what its user left it as, whatever becomes of the others."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.fake_slurm import FakeSlurm
from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.engines.notes import MemoryNotes
from wharfinger.engines.slurm.client.base import SlurmJob
from wharfinger.engines.slurm.comments import note_in
from wharfinger.engines.slurm.start_notes import StartNotes
from wharfinger.engines.slurm.user_arrays import has_task
from wharfinger.engines.slurm.user_jobs import LetGoOrder, UserJobs
from wharfinger.errors import SlurmRefused, SlurmUnavailable
from wharfinger.model.allocation import Allocation, Placement

TARGET = "wharfinger: {target: {completionTime: 20m}}"


@pytest.fixture
def slurm(tmp_path: Path) -> FakeSlurm:
    return FakeSlurm(tmp_path)


@pytest.fixture
def notes() -> StartNotes:
    return StartNotes(MemoryNotes())


@pytest.fixture
def users(slurm: FakeSlurm, notes: StartNotes) -> UserJobs:
    return _opened(slurm, notes)


def _opened(slurm: FakeSlurm, notes: StartNotes) -> UserJobs:
    return UserJobs(slurm, notes, ["main"], lambda key: None)


def _offers(users: UserJobs, slurm: FakeSlurm) -> Mapping[str, ev.WorkloadOffered]:
    return users.offered(slurm.jobs_now())


def _cpus(offer: ev.WorkloadOffered) -> int:
    return offer.workload.reservation.cpu_millicpus // 1000


def _order(offer: ev.WorkloadOffered) -> LetGoOrder:
    """On one node with one CPU, under its handle as key."""
    placements = (Placement("n1", Allocation(1000, 64 << 20)),)
    return LetGoOrder(offer.handle, offer.handle, offer.workload, placements)


def _task(slurm: FakeSlurm, task: int) -> SlurmJob:
    return next(job for job in slurm.jobs_now() if job.task_id == task)


def test_a_task_that_is_refused_leaves_what_the_others_state(
    users: UserJobs, slurm: FakeSlurm, notes: StartNotes, monkeypatch: pytest.MonkeyPatch
):
    array = slurm.hand_in("#!/bin/sh\n", TARGET, array_tasks="0-5", cpus=4)
    offers = _offers(users, slurm)
    update = slurm.update

    def refuse(job_id: int, fields: Mapping[str, str], task: int | None = None) -> None:
        if task == 2:
            raise SlurmRefused("scontrol: Invalid job id specified")
        update(job_id, fields, task)

    monkeypatch.setattr(slurm, "update", refuse)
    results = users.let_go([_order(offers[f"job {array}_{task}"]) for task in (1, 2, 3)])
    assert [isinstance(result, int) for result in results] == [True, False, True]
    for reopened in (users, _opened(slurm, notes)):
        reopened.keys.clear()  # As where they are held again.
        again = _offers(reopened, slurm)
        assert again.keys() == offers.keys()
        assert {_cpus(offer) for offer in again.values()} == {4}
    bound = [_task(slurm, task) for task in (1, 3)]
    assert {(job.cpus, job.required_nodes) for job in bound} == {(1, ("n1",))}
    users.give_back(bound)
    assert {(_task(slurm, task).cpus, _task(slurm, task).required_nodes) for task in (1, 3)} == {
        (4, ())
    }


def test_what_a_user_changes_of_an_array_is_seen_after_its_first_task(
    users: UserJobs, slurm: FakeSlurm, notes: StartNotes
):
    array = slurm.hand_in("#!/bin/sh\n", TARGET, array_tasks="0-5", cpus=4)
    users.let_go([_order(_offers(users, slurm)[f"job {array}_0"])])
    slurm.update(array, {"NumCPUs": "8"})
    slurm.update(array, {"NumCPUs": "6"}, task=1)
    slurm.update(array, {"ReqNodeList": "n2"}, task=2)
    for reopened in (users, _opened(slurm, notes)):
        reopened.keys.clear()
        cpus = {handle: _cpus(offer) for handle, offer in _offers(reopened, slurm).items()}
        alone = {f"job {array}_0": 4, f"job {array}_1": 6}
        assert cpus == {**alone, **{f"job {array}_{task}": 8 for task in (3, 4, 5)}}


def test_a_task_that_is_offered_again_has_the_limit_of_its_array(
    users: UserJobs, slurm: FakeSlurm, notes: StartNotes
):
    array = slurm.hand_in("#!/bin/sh\n", TARGET, array_tasks="0-5%2")
    users.let_go([_order(_offers(users, slurm)[f"job {array}_0"])])
    users.give_back([_task(slurm, 0)])
    for now in (users, _opened(slurm, notes)):
        now.keys.clear()
        offers = now.offered([_task(slurm, 0)])  # The others are gone, and it tells no limit.
        assert offers.keys() == {f"job {array}_0"}
        assert [o.workload.array and o.workload.array.at_once for o in offers.values()] == [2]


def test_the_limit_of_an_array_is_forgotten_with_it(
    users: UserJobs, slurm: FakeSlurm, notes: StartNotes
):
    array = slurm.hand_in("#!/bin/sh\n", TARGET, array_tasks="0-5%2")
    _offers(users, slurm)
    assert notes.array_limits() == {array: 2}
    users.offered([])
    assert notes.array_limits() == {}


def test_a_text_that_slurm_did_not_take_is_written_by_the_next_try(
    users: UserJobs, slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch
):
    array = slurm.hand_in("#!/bin/sh\n", TARGET, array_tasks="0-5", cpus=4)
    handle = f"job {array}_1"
    order = _order(_offers(users, slurm)[handle])
    users.annotate([act.AnnotateWorkload(handle, "placement: ok", "on n1")])
    update, away = slurm.update, True

    def lose(job_id: int, fields: Mapping[str, str], task: int | None = None) -> None:
        if away and "Comment" in fields:
            raise SlurmUnavailable("scontrol: no answer")
        update(job_id, fields, task)

    monkeypatch.setattr(slurm, "update", lose)
    with pytest.raises(SlurmUnavailable):
        users.let_go([order])
    away = False
    number = _task(slurm, 1).job_id
    assert users.let_go([order]) == [number]
    assert note_in(_task(slurm, 1).comment) == "on n1"
    users.give_back([_task(slurm, 1)])
    assert _task(slurm, 1).cpus == 4


def test_texts_of_tasks_that_are_cancelled_are_dropped(users: UserJobs, slurm: FakeSlurm):
    array = slurm.hand_in("#!/bin/sh\n", TARGET, array_tasks="0-5")
    asked = [
        act.AnnotateWorkload(handle, "placement: ok", "on n1") for handle in _offers(users, slurm)
    ]
    users.annotate(asked)
    _offers(users, slurm)
    assert len(users._texts) == 6
    slurm.end(array, "CANCELLED")
    assert not _offers(users, slurm)
    assert not users._texts


def test_a_task_is_found_in_an_array_without_going_through_all():
    array = SlurmJob(9, "w", "bob", "main", "PENDING", array_id=9, array_tasks=f"3-{10**12}:4,5%2")
    assert [has_task(array, 9, task) for task in (3, 4, 5, 7, 10**12 - 1, None)] == [
        True, False, True, True, True, False,
    ]  # fmt: skip
    assert not has_task(array, 8, 3)
