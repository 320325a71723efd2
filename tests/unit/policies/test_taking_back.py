"""Best-effort work leaves for what has a target, where the engine shares no CPU."""

from dataclasses import replace

import pytest

from tests.support.cluster import Cluster, server, workload
from tests.support.courses import made, phase, start, wants
from wharfinger.core import events as ev
from wharfinger.core.lifecycle import Phase
from wharfinger.model.decisions import ReasonCode
from wharfinger.model.view import Capabilities
from wharfinger.model.workload import Workload

WHOLE = Capabilities(fractional_cpu=False, shares_cpus=False, suspend=False)


def filler(name: str, *, restartable: bool = True) -> Workload:
    held = workload(name, 1000, best_effort=True)
    return replace(held, run=replace(held.run, restartable=restartable))


def stopped(cluster: Cluster, name: str) -> None:
    cluster.tell(ev.WorkloadFinished(cluster.key(name), None, 15, "stopped"))


def test_one_leaves_where_all_is_full_and_goes_on_later() -> None:
    cluster = made("quasar", 1, 1, able=WHOLE)
    start(cluster, filler("f"), filler("g"))
    cluster.tell(ev.WorkloadSubmitted(wants("w", millicpus=1000)))
    assert phase(cluster, "f") is Phase.MIGRATING
    assert cluster.record("w").decisions[-1].decision.reason is ReasonCode.PREEMPTING
    assert "best-effort f leaves a for it" in cluster.record("w").decisions[-1].decision.message
    stopped(cluster, "f")
    assert phase(cluster, "w") is Phase.PLACED
    assert phase(cluster, "f") is Phase.QUEUED
    assert phase(cluster, "g") is Phase.RUNNING
    cluster.check_books()


@pytest.mark.parametrize(
    ("able", "there", "wanted"),
    [
        (WHOLE, filler("f", restartable=False), wants("w", millicpus=1000)),
        (WHOLE, workload("f", 1000), wants("w", millicpus=1000)),
        (WHOLE, filler("f"), filler("w")),
        (WHOLE, filler("f"), wants("w", millicpus=3000)),
    ],
    ids=["not-restartable", "has-a-reservation", "itself-best-effort", "too-large"],
)
def test_nothing_else_leaves(able: Capabilities, there: Workload, wanted: Workload) -> None:
    cluster = made("quasar", 1, able=able)
    start(cluster, there)
    cluster.tell(ev.WorkloadSubmitted(wanted))
    assert phase(cluster, "f") is Phase.RUNNING


def test_what_is_free_is_taken_first() -> None:
    cluster = made("quasar", 1, 1, able=WHOLE)
    start(cluster, filler("f"))
    cluster.tell(ev.WorkloadSubmitted(wants("w", millicpus=1000)))
    assert phase(cluster, "w") is Phase.PLACED
    assert phase(cluster, "f") is Phase.RUNNING


def test_it_does_not_begin_where_others_wait_for_room_to_be_profiled() -> None:
    cluster = made("quasar", 1, able=WHOLE)
    for name in ("u", "v", "w"):  # A copy takes half a CPU.
        cluster.tell(ev.WorkloadSubmitted(workload(name, 1000, profile=True)))
    assert phase(cluster, "v") is Phase.PROFILING
    assert phase(cluster, "w") is Phase.ADMITTED
    cluster.tell(ev.WorkloadSubmitted(filler("f")))
    cluster.tell(ev.ServerReported(server("b", 1)))
    assert phase(cluster, "w") is Phase.PROFILING
    assert phase(cluster, "f") is Phase.QUEUED
    cluster.tell(ev.ServerReported(server("c", 1)))
    assert phase(cluster, "f") is Phase.PLACED
