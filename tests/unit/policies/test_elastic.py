"""Allocations that nobody stated follow what is measured."""

from dataclasses import replace

import pytest

from tests.support.cluster import MIB, Cluster, running, server, workload
from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.core.lifecycle import Phase
from wharfinger.model.allocation import Allocation
from wharfinger.model.performance import Quantity, Reading, Sample
from wharfinger.model.profile import Classification, Measurements
from wharfinger.model.workload import Reservation, Restart, Workload, WorkloadType

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
    assert sizes[0] == "out of memory: it gets 1Gi; restart 1 of 5 after 1s"
    _runs_out(cluster)
    assert cluster.record("w").phase is Phase.FAILED, "no server has more"
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
