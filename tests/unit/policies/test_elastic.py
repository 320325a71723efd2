"""Allocations that nobody stated follow what is measured."""

from dataclasses import replace

import pytest

from tests.support.cluster import MIB, Cluster, running, server, workload
from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.core.lifecycle import Phase
from wharfinger.model.allocation import Allocation
from wharfinger.model.memory_needs import MemoryNeed, MemorySource
from wharfinger.model.performance import Quantity, Reading, Sample
from wharfinger.model.profile import Classification, Measurements
from wharfinger.model.workload import (
    Reservation,
    Restart,
    RestartPolicy,
    Run,
    Workload,
    WorkloadType,
)

SMALL = Reservation(250, 512 * MIB, elastic_cpu=True, elastic_memory=True)
POLICIES = ("least-loaded", "quasar", "feedback", "autoscale")


def _elastic(name: str = "w", **changes: object) -> Workload:
    return replace(workload(name), reservation=SMALL, **changes)


def _cluster(policy: str = "least-loaded", cpus: int = 2, memory_mib: int = 4096) -> Cluster:
    cluster = Cluster(policy)
    cluster.tell(ev.ServerReported(server("s", cpus, memory_mib)))
    cluster.sync()
    return cluster


def _start(cluster: Cluster, *workloads: Workload) -> None:
    for each in workloads:
        cluster.tell(ev.WorkloadSubmitted(each))
        running(cluster, each.name)


def _use(cluster: Cluster, seconds: float = 5.0, memory_mib: float = 10.0, **cpus: float) -> None:
    """A sample of what each uses, so long after the one before; the engine resizes at once."""
    cluster.now += seconds
    samples = tuple(
        Sample(
            cluster.key(name),
            {
                Quantity.CPU: Reading(used, "test", trusted=False),
                Quantity.MEMORY: Reading(memory_mib * MIB, "test", trusted=False),
            },
        )
        for name, used in cpus.items()
    )
    step = cluster.tell(ev.ServerMeasured("s", samples))
    for action in step.actions:
        if isinstance(action, act.ResizeAllocation):
            cluster.tell(ev.AllocationResized(action.key, action.placements))
    cluster.check_books()


def _held(cluster: Cluster, name: str = "w") -> Allocation:
    return cluster.record(name).placements[0].allocation


@pytest.mark.parametrize("policy", POLICIES)
def test_cpu_doubles_while_all_of_it_is_used(policy: str) -> None:
    cluster, sizes = _cluster(policy), []
    _start(cluster, _elastic())
    for _ in range(5):
        _use(cluster, w=_held(cluster).cpu_millicpus / 1000)
        sizes.append(_held(cluster).cpu_millicpus)
    assert sizes == [500, 1000, 2000, 2000, 2000]
    assert cluster.record("w").decisions[-1].decision.message == (
        "resized by measurement: raised from 1 to 2 CPU: 1 CPU in use, at its limit"
    )


def test_it_grows_within_what_is_free() -> None:
    cluster = _cluster()
    _start(cluster, workload("other", 1500), _elastic())
    _use(cluster, w=0.25)
    _use(cluster, w=0.5)
    assert _held(cluster).cpu_millicpus == 500
    assert _held(cluster, "other").cpu_millicpus == 1500


def test_one_that_idles_for_long_gets_less_but_what_it_reserves() -> None:
    cluster = _cluster()
    _start(cluster, _elastic())
    for used in (0.25, 0.5, 1.0):
        _use(cluster, w=used)
    _use(cluster, w=0.1)
    assert _held(cluster).cpu_millicpus == 2000, "not at once"
    for expected in (1000, 500, 250, 250):
        _use(cluster, 130.0, w=0.01)
        assert _held(cluster).cpu_millicpus == expected


def test_memory_doubles_with_the_sample_that_shows_it_fill_up_and_is_never_taken() -> None:
    cluster = _cluster()
    _start(cluster, _elastic())
    _use(cluster, 0.5, 400.0, w=0.1)
    assert _held(cluster).memory_bytes == 1024 * MIB
    assert cluster.record("w").decisions[-1].decision.message == (
        "resized by measurement: 400Mi of 512Mi memory in use: 1Gi"
    )
    for _ in range(3):
        _use(cluster, 200.0, 5.0, w=0.1)
    assert _held(cluster).memory_bytes == 1024 * MIB


def test_cpu_goes_back_to_what_waits_for_room() -> None:
    cluster = _cluster()
    _start(cluster, _elastic())
    for used in (0.25, 0.5, 1.0):
        _use(cluster, w=used)
    cluster.tell(ev.WorkloadSubmitted(workload("late", 1000)))
    assert cluster.record("late").phase is Phase.QUEUED
    _use(cluster, w=2.0)
    assert cluster.record("late").phase is Phase.PLACED
    assert _held(cluster).cpu_millicpus == 1000
    message = cluster.record("w").decisions[-1].decision.message
    assert message == "resized by measurement: reduced from 2 to 1 CPU: late waits for room"


def test_nothing_is_given_back_where_it_would_not_suffice() -> None:
    cluster = _cluster()
    _start(cluster, _elastic())
    for used in (0.25, 0.5, 1.0):
        _use(cluster, w=used)
    cluster.tell(ev.WorkloadSubmitted(workload("large", 1900)))
    _use(cluster, w=2.0)
    assert _held(cluster).cpu_millicpus == 2000


@pytest.mark.parametrize("part", ["elastic_cpu", "elastic_memory"])
def test_what_is_stated_stays(part: str) -> None:
    cluster = _cluster()
    _start(cluster, replace(_elastic(), reservation=replace(SMALL, **{part: False})))
    _use(cluster, 5.0, 500.0, w=0.25)
    stays = Allocation(250, 512 * MIB)
    kept = "cpu_millicpus" if part == "elastic_cpu" else "memory_bytes"
    assert getattr(_held(cluster), kept) == getattr(stays, kept)
    assert _held(cluster) != stays


def test_another_priority_does_not_take_back_what_it_has_got() -> None:
    cluster = _cluster()
    _start(cluster, _elastic())
    _use(cluster, w=0.25)
    smaller = replace(SMALL, cpu_millicpus=100)
    cluster.tell(ev.WorkloadUpdated(replace(_elastic(priority=3), reservation=smaller)))
    assert _held(cluster).cpu_millicpus == 500
    cluster.tell(ev.WorkloadUpdated(replace(_elastic(), reservation=Reservation(300, 512 * MIB))))
    assert cluster.record("w").planned[0].allocation.cpu_millicpus == 300


@pytest.mark.parametrize(
    ("peak_mib", "type_", "expected_mib"),
    [
        (10, WorkloadType.BATCH, 74),
        (1000, WorkloadType.BATCH, 1250),
        (10, WorkloadType.LATENCY_CRITICAL, 512),
        (None, WorkloadType.BATCH, 512),
    ],
)
def test_memory_is_the_measured_peak_and_a_margin(
    peak_mib: int | None, type_: WorkloadType, expected_mib: int
) -> None:
    cluster = _cluster()
    cluster.tell(ev.WorkloadSubmitted(_elastic(type=type_, labels={"profile": "yes"})))
    peak = None if peak_mib is None else peak_mib * MIB
    cluster.tell(ev.ProfilingFinished(cluster.key("w"), Measurements(memory_peak_bytes=peak)))
    cluster.tell(ev.WorkloadClassified(cluster.key("w"), Classification("none", "1")))
    assert _held(cluster).memory_bytes == expected_mib * MIB


def _runs_out(cluster: Cluster) -> None:
    finished = ev.WorkloadFinished(cluster.key("w"), None, 9, "out-of-memory")
    cluster.tell(finished)
    cluster.check_books()


def test_what_ran_out_of_memory_is_started_again_with_twice_as_much() -> None:
    cluster, sizes = _cluster(memory_mib=3000), []
    _start(cluster, _elastic())
    for _ in range(3):
        _runs_out(cluster)
        sizes.append(cluster.record("w").message)
        cluster.now += 60.0
        cluster.tell(ev.TimePassed())
        running(cluster, "w")
        sizes.append(_held(cluster).memory_bytes // MIB)
    assert sizes[1::2] == [1024, 2048, 3000]
    told = "out of memory with 512Mi: its next start gets 1Gi; restart 1 of 5 after 1s"
    assert sizes[0] == told
    _runs_out(cluster)
    assert cluster.record("w").phase is Phase.FAILED
    told = "out of memory with 3000Mi: no server has more, after 3 restarts in a row"
    assert cluster.record("w").message == told
    assert cluster.manager.state.out_of_memory_kills == 4
    cluster.tell(ev.WorkloadSubmitted(_elastic()))
    assert _held(cluster).memory_bytes == 3000 * MIB, "its next run begins there"


def test_what_is_never_to_be_restarted_is_not_even_with_more_memory() -> None:
    cluster, never = _cluster(memory_mib=3000), Restart(never_stated=True)
    asked = _elastic()
    asked = replace(asked, run=replace(asked.run, restart=never))
    _start(cluster, asked)
    _runs_out(cluster)
    assert cluster.record("w").phase is Phase.FAILED
    cluster.tell(ev.WorkloadSubmitted(asked))
    assert _held(cluster).memory_bytes == 1024 * MIB, "its next run begins with more"


@pytest.mark.parametrize(("limit", "restarts"), [(5, 0), (None, 0)])
def test_what_no_server_has_memory_for_is_not_started_again_and_again(
    limit: int | None, restarts: int
) -> None:
    cluster = _cluster(memory_mib=512)
    always = Restart(RestartPolicy.ALWAYS, limit)
    asked = _elastic()
    _start(cluster, replace(asked, run=replace(asked.run, restart=always)))
    _runs_out(cluster)
    found = cluster.record("w")
    assert (found.phase, found.restarts) == (Phase.FAILED, restarts)
    assert found.message == "out of memory with 512Mi: no server has more"


def test_a_service_that_has_run_well_is_started_again_with_all_there_is() -> None:
    cluster = _cluster(memory_mib=512)
    asked = _elastic(type=WorkloadType.LATENCY_CRITICAL)
    always = Restart(RestartPolicy.ALWAYS, None)
    _start(cluster, replace(asked, run=replace(asked.run, restart=always)))
    cluster.now += 3600.0
    _runs_out(cluster)
    assert cluster.record("w").phase is Phase.QUEUED


def _ends_well(cluster: Cluster, name: str, peak_mib: int) -> None:
    peak = peak_mib * MIB
    cluster.tell(ev.WorkloadFinished(cluster.key(name), 0, None, "exited", memory_peak_bytes=peak))


@pytest.mark.parametrize("policy", POLICIES)
def test_a_later_run_of_the_same_program_begins_with_the_peak_of_an_earlier_one(
    policy: str,
) -> None:
    cluster = _cluster(policy)
    _start(cluster, _elastic("first"))
    _ends_well(cluster, "first", 60)
    other = replace(_elastic("other"), run=Run(("false",)))
    _start(cluster, _elastic("second"), other)
    assert _held(cluster, "second").memory_bytes == 124 * MIB
    assert _held(cluster, "other").memory_bytes == 512 * MIB, "of another program"
    told = cluster.record("second").decisions[-1].decision
    assert told.message.endswith("; 124Mi memory: an earlier run used up to 60Mi")
    assert told.numbers["memory_peak_bytes"] == 60 * MIB
    told = cluster.record("other").decisions[-1].decision
    assert told.message.endswith("; 512Mi memory: nothing is measured yet, it follows its use")


def test_a_peak_of_page_cache_does_not_raise_what_was_enough() -> None:
    cluster = _cluster()
    _start(cluster, _elastic("first"))
    _ends_well(cluster, "first", 512)
    _start(cluster, _elastic("second"))
    assert _held(cluster, "second").memory_bytes == 512 * MIB


def test_a_margin_is_no_more_than_a_server_has() -> None:
    cluster = _cluster(memory_mib=600)
    cluster.tell(ev.WorkloadSubmitted(_elastic(labels={"profile": "yes"})))
    peak = Measurements(memory_peak_bytes=570 * MIB)
    cluster.tell(ev.ProfilingFinished(cluster.key("w"), peak))
    cluster.tell(ev.WorkloadClassified(cluster.key("w"), Classification("none", "1")))
    assert _held(cluster).memory_bytes == 600 * MIB


def test_a_run_that_ends_well_settles_what_a_kill_has_doubled() -> None:
    cluster = _cluster()
    _start(cluster, _elastic())
    _runs_out(cluster)
    cluster.now += 60.0
    cluster.tell(ev.TimePassed())
    running(cluster, "w")
    assert _held(cluster).memory_bytes == 1024 * MIB
    _ends_well(cluster, "w", 600)
    _start(cluster, _elastic("later"))
    assert _held(cluster, "later").memory_bytes == 750 * MIB


def test_a_copy_that_ran_out_of_memory_raises_what_its_workload_gets() -> None:
    cluster = _cluster()
    cluster.tell(ev.WorkloadSubmitted(_elastic(labels={"profile": "yes"})))
    limit = 700 * MIB
    failed = ev.ProfilingFailed(cluster.key("w"), "too much", out_of_memory_bytes=limit)
    cluster.tell(failed)
    cluster.tell(ev.WorkloadClassified(cluster.key("w"), Classification("none", "1")))
    assert _held(cluster).memory_bytes == 1400 * MIB


def test_stated_memory_is_neither_trimmed_nor_raised() -> None:
    cluster = _cluster()
    _start(cluster, _elastic("first"))
    _ends_well(cluster, "first", 10)
    _start(cluster, workload("stated", memory_mib=2000))
    assert _held(cluster, "stated").memory_bytes == 2000 * MIB
    assert "memory:" not in cluster.record("stated").decisions[-1].decision.message


def test_a_replay_knows_the_same_of_memory() -> None:
    cluster = _cluster()
    _start(cluster, _elastic())
    _runs_out(cluster)
    for entry in (0, len(cluster.log) // 2, len(cluster.log)):
        assert cluster.replayed(entry).state.memory_needs == cluster.manager.state.memory_needs
    (need,) = cluster.manager.state.memory_needs.values()
    assert need == MemoryNeed(512 * MIB, 1024 * MIB, MemorySource.KILLED, kills=1)


def test_stated_memory_that_does_not_suffice_is_a_failure() -> None:
    cluster = _cluster()
    _start(cluster, workload("w"))
    _runs_out(cluster)
    assert cluster.record("w").phase is Phase.FAILED


def test_what_nobody_sized_starts_where_little_is_free() -> None:
    cluster = _cluster(cpus=2)
    _start(cluster, workload("busy", 1200))
    cluster.tell(ev.WorkloadSubmitted(_elastic()))
    assert cluster.record("w").phase is Phase.PLACED
