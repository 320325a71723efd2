"""What the core does with an admission's answers: ranks, sets of servers, reviews, accounts."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from tests.support.cluster import LABELLED, Cluster, server, workload
from wharfinger.core import events as ev
from wharfinger.core.codec import decode_state, encode_state
from wharfinger.core.lifecycle import Phase
from wharfinger.core.pipeline import Core
from wharfinger.core.seams.admission import AdmissionView, Servers
from wharfinger.core.seams.verdicts import Admit, Divert
from wharfinger.core.settings import CoreSettings
from wharfinger.model.decisions import Decision, ReasonCode, Stage
from wharfinger.model.view import Request
from wharfinger.policies.admission.fifo import Fifo
from wharfinger.policies.registry import make_policy


class Gate(Fifo):
    """Those named ``far-…`` may take the last server alone, until they have waited for 10 s.

    A name that ends in a number ranks by it.
    """

    name = "gate"
    queues = ("free", "kept")

    def admit(self, request: Request, view: AdmissionView) -> Admit:
        admitted = super().admit(request, view)
        assert isinstance(admitted, Admit)
        return replace(admitted, rank=rank_of(request))

    def enqueue(self, request: Request, view: AdmissionView) -> Admit:
        far = request.workload.name.startswith("far-")
        queue, review_at = ("kept", view.now + 10) if far else ("free", None)
        return Admit(queue=queue, review_at=review_at, rank=rank_of(request))

    def review(self, request: Request, queue: str, view: AdmissionView) -> Divert:
        told = Decision(Stage.ADMISSION, self.name, True, ReasonCode.OK, "no longer kept")
        return Divert("free", told)

    def servers(self, request: Request, queue: str, view: AdmissionView) -> Sequence[Servers]:
        if queue == "free":
            return ()
        last = np.zeros(len(view.cluster.names), dtype=np.bool_)
        last[-1:] = True
        return (last,)

    def blocks(self, reason: ReasonCode) -> bool:
        return reason is ReasonCode.WAITS_FOR_QUALITY or super().blocks(reason)


def rank_of(request: Request) -> float:
    _, _, rank = request.workload.name.rpartition("-")
    return float(rank) if rank.isdigit() else 0.0


class GatedCluster(Cluster):
    def make_manager(self, snapshot: bytes | None) -> Core:
        policy = replace(make_policy("least-loaded"), admission=Gate(), estimation=LABELLED)
        state = None if snapshot is None else decode_state(snapshot)
        return Core(policy, state=state, settings=CoreSettings(keep_ended=self.keep_ended))


@pytest.fixture
def cluster() -> GatedCluster:
    made = GatedCluster()
    made.tell(ev.ServerReported(server("a")), ev.ServerReported(server("b")))
    made.sync()
    return made


def submit(cluster: Cluster, *names: str, millicpus: int = 2000) -> None:
    cluster.tell(*(ev.WorkloadSubmitted(workload(name, millicpus)) for name in names))


def where(cluster: Cluster, name: str) -> str:
    placements = cluster.record(name).placements
    return placements[0].server if placements else ""


def end(cluster: Cluster, name: str, after: float = 0.0) -> None:
    key = cluster.key(name)
    cluster.tell(ev.StartAccepted(key), ev.WorkloadStarted(key, "h", cluster.now))
    cluster.now += after
    cluster.tell(ev.WorkloadFinished(key, 0, None, "completed", 1.0))


def test_a_workload_waits_for_its_servers_while_others_have_room(cluster: GatedCluster) -> None:
    submit(cluster, "large-0", "far-0")
    assert (where(cluster, "large-0"), where(cluster, "far-0")) == ("a", "b")
    submit(cluster, "far-1")
    end(cluster, "large-0")
    record = cluster.record("far-1")
    assert record.phase is Phase.QUEUED
    assert record.deferral is ReasonCode.WAITS_FOR_QUALITY
    assert "a has, and is for others" in record.message
    submit(cluster, "far-2", "near")
    assert cluster.record("far-2").phase is Phase.QUEUED, "it waits behind it"
    assert where(cluster, "near") == "a", "others do not"
    assert cluster.replayed().state == cluster.manager.state


def test_at_its_review_it_may_take_any(cluster: GatedCluster) -> None:
    submit(cluster, "far-0", "far-1")
    cluster.now += 11
    cluster.tell(ev.TimePassed())
    assert where(cluster, "far-1") == "a"
    assert cluster.record("far-1").queue == "free"
    account = cluster.manager.state.accounts["kept"]
    assert (account.entered, account.diverted) == (2, {"free": 1})
    assert cluster.replayed().state == cluster.manager.state


def test_a_changed_manifest_is_asked_about_at_once(cluster: GatedCluster) -> None:
    submit(cluster, "far-0", "far-1")
    before = cluster.record("far-1")
    assert (before.queue, before.rank) == ("kept", 1.0)
    cluster.now += 3
    cluster.tell(ev.WorkloadUpdated(replace(before.workload, priority=5)))
    record = cluster.record("far-1")
    assert (record.phase, record.queue) == (Phase.QUEUED, "kept")
    assert record.review_at is not None
    assert record.review_at == cluster.now + 10, "as if it came now"
    assert cluster.replayed().state == cluster.manager.state


def test_a_later_queue_does_not_delay_the_head_of_an_earlier_one(cluster: GatedCluster) -> None:
    for name, seconds in (("first", 100.0), ("second", 50.0)):
        lasting = replace(workload(name, 1500), expected_seconds=seconds)
        cluster.tell(ev.WorkloadSubmitted(lasting))
    cluster.tell(
        ev.WorkloadSubmitted(replace(workload("head", 2000), expected_seconds=20.0)),
    )
    cluster.now = 19.0
    submit(cluster, "far-0", millicpus=400)
    assert where(cluster, "far-0") == "b", "within what it runs it may be passed"
    end(cluster, "far-0")
    cluster.now = 20.0
    submit(cluster, "far-1", millicpus=500)
    told = cluster.record("far-1").decisions[-1].decision
    assert told.reason is ReasonCode.BEHIND_OTHERS
    assert "it would delay head, which waits for room before it" in told.message
    assert cluster.manager.try_placing(cluster.now, cluster.record("far-1")).message == told.message
    end(cluster, "second")
    assert where(cluster, "head") == "b"


def test_another_admission_queues_again_what_waits_in_a_queue_that_it_does_not_have(
    cluster: GatedCluster,
) -> None:
    submit(cluster, "first", "second", "far-1")
    assert cluster.record("far-1").queue == "kept"
    policy = make_policy("least-loaded")
    cluster.manager = Core(policy, state=decode_state(encode_state(cluster.manager.state)))
    cluster.tell(cluster.manager.started("n", "0", "test", cluster.able))
    cluster.sync()
    assert cluster.record("far-1").queue == "guaranteed"
    messages = [made.decision.message for made in cluster.record("far-1").decisions]
    assert "the manager has no queue kept any more" in messages
    end(cluster, "first")
    assert where(cluster, "far-1") == "a"


def test_a_clock_that_is_set_back_strands_nobody(cluster: GatedCluster) -> None:
    cluster.now = 10_000.0
    submit(cluster, "far-0", "far-1")
    cluster.now = 100.0
    cluster.tell(ev.TimePassed())
    assert where(cluster, "far-1") == "a"


def test_lower_ranks_are_served_first(cluster: GatedCluster) -> None:
    submit(cluster, "one", "two")
    submit(cluster, "job-30", "job-10", "job-20")
    end(cluster, "one")
    end(cluster, "two")
    assert [where(cluster, f"job-{rank}") for rank in (10, 20, 30)] == ["a", "b", ""]
    assert cluster.replayed(7).state == cluster.manager.state


def test_room_to_be_profiled_goes_by_priority_and_rank(cluster: GatedCluster) -> None:
    fillers = [f"filler{at}" for at in range(8)]
    submit(cluster, *fillers, millicpus=500)
    wanted = {"job-30": 0, "job-10": 0, "job-20": 0, "urgent-90": 5}
    for name, priority in wanted.items():
        asked = workload(name, 500, priority=priority, profile=True)
        cluster.tell(ev.WorkloadSubmitted(asked))
    waits = set(wanted)
    for first in ("urgent-90", "job-10", "job-20", "job-30"):
        assert cluster.replayed(20).state == cluster.manager.state
        end(cluster, fillers.pop())
        profiled = {name for name in waits if cluster.record(name).phase is Phase.PROFILING}
        assert profiled == {first}
        waits -= profiled


def test_busy_periods_are_from_placement_to_end(cluster: GatedCluster) -> None:
    cluster.now = 50.0
    submit(cluster, "one", "two")
    account = cluster.manager.state.accounts["free"]
    assert account.placed == {"one": 50.0, "two": 50.0}
    end(cluster, "one", after=30.0)
    assert (account.busy_seconds, account.ended) == ([30.0], 1)
    cluster.tell(ev.StartFailed(cluster.key("two"), "no such program", retryable=False))
    assert account.ended == 1, "what never ran kept nothing busy"
    assert "two" not in account.placed or cluster.record("two").on_server
    assert cluster.replayed(5).state == cluster.manager.state
