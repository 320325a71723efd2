"""What the core does with an admission's answers: ranks, sets of servers, reviews, accounts."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.support.cluster import LABELLED, Cluster, server, workload
from wharfinger.core import events as ev
from wharfinger.core.codec import decode_state, encode_state
from wharfinger.core.lifecycle import Phase
from wharfinger.core.pipeline import Core
from wharfinger.core.seams.admission import AdmissionView, Servers
from wharfinger.core.seams.verdicts import Admit, Divert, WaitUntil
from wharfinger.core.settings import CoreSettings
from wharfinger.model.decisions import Decision, ReasonCode, Refuse, Stage
from wharfinger.model.profile import Classification, Measurements
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


class Strict(Gate):
    """Says no and not yet too: by names in the queue, by ``tired`` and ``again`` at the review."""

    name = "strict"

    def enqueue(self, request: Request, view: AdmissionView) -> Any:
        if request.workload.name.startswith("no-"):
            return Refuse(self.told("of no use", "another program"))
        if request.workload.name.startswith("later-") and view.now < 10:
            return WaitUntil(10.0, self.told("not yet", "waiting"))
        return super().enqueue(request, view)

    def review(self, request: Request, queue: str, view: AdmissionView) -> Any:
        if "tired" in request.workload.labels:
            return Refuse(self.told("has waited too long", "more servers"))
        if "again" in request.workload.labels and view.now < 20:
            return WaitUntil(view.now + 10, self.told("not yet", "waiting"))
        return super().review(request, queue, view)

    def told(self, message: str, mend: str) -> Decision:
        return Decision(Stage.ADMISSION, self.name, False, ReasonCode.WAITING, message, mend)


class GatedCluster(Cluster):
    admission: Gate = Gate()

    def make_manager(self, snapshot: bytes | None) -> Core:
        policy = replace(make_policy("least-loaded"), admission=self.admission, estimation=LABELLED)
        state = None if snapshot is None else decode_state(snapshot)
        return Core(policy, state=state, settings=CoreSettings(keep_ended=self.keep_ended))


@pytest.fixture
def cluster() -> GatedCluster:
    made = GatedCluster()
    made.tell(ev.ServerReported(server("a")), ev.ServerReported(server("b")))
    made.sync()
    return made


class StrictCluster(GatedCluster):
    admission = Strict()


@pytest.fixture
def strict() -> StrictCluster:
    made = StrictCluster()
    made.now = 0.0
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


def test_one_may_be_rejected_once_it_is_classified(strict: StrictCluster) -> None:
    profiled = replace(workload("no-use"), labels={"profile": ""})
    strict.tell(ev.WorkloadSubmitted(profiled))
    assert strict.record("no-use").phase is Phase.PROFILING
    strict.tell(ev.ProfilingFinished(strict.key("no-use"), Measurements()))
    strict.tell(ev.WorkloadClassified(strict.key("no-use"), Classification("test", "1")))
    record = strict.record("no-use")
    assert (record.phase, record.decisions[-1].decision.message) == (Phase.REJECTED, "of no use")
    assert strict.replayed().state == strict.manager.state


def test_one_may_be_told_to_come_again_once_it_is_classified(strict: StrictCluster) -> None:
    submit(strict, "later-1")
    assert strict.record("later-1").phase is not Phase.QUEUED
    strict.now += 5
    strict.tell(ev.TimePassed())
    assert strict.record("later-1").phase is not Phase.QUEUED
    strict.now += 5
    strict.tell(ev.TimePassed())
    assert where(strict, "later-1") == "a"
    assert strict.replayed().state == strict.manager.state


def test_a_review_may_reject_or_name_another_time(strict: StrictCluster) -> None:
    submit(strict, "far-0")
    for label in ("tired", "again"):
        waits = replace(workload(f"far-{label}", 2000), labels={label: ""})
        strict.tell(ev.WorkloadSubmitted(waits))
    strict.now += 11
    strict.tell(ev.TimePassed())
    tired, again = strict.record("far-tired"), strict.record("far-again")
    assert tired.phase is Phase.REJECTED
    assert tired.decisions[-1].decision.message == "has waited too long"
    assert (again.phase, again.queue, again.review_at) == (Phase.QUEUED, "kept", 21.0)
    strict.now += 11
    strict.tell(ev.TimePassed())
    assert where(strict, "far-again") == "a"
    assert strict.replayed().state == strict.manager.state


def test_an_admission_is_told_how_many_go_first(cluster: GatedCluster) -> None:
    """By priority, then by rank, then in the order of arrival."""
    submit(cluster, "far-0", "far-20", "far-10")
    first = replace(workload("far-30", 2000), priority=1)
    cluster.tell(ev.WorkloadSubmitted(first))
    view = cluster.manager.admission_view(cluster.now)
    assert view.waiting["kept"] == 3
    assert view.before(["kept"], 1, 30.0, "far-30") == [0]
    assert view.before(["kept"], 0, 10.0, "far-10") == [1]
    assert view.before(["kept"], 0, 20.0, "far-20") == [2]
    assert view.before(["kept", "free"], 0, 20.0, "new") == [3, 0]
    assert view.before(["kept"], 2, 99.0, "new") == [0]


def test_an_admission_may_ask_what_is_due_before_the_queue(cluster: GatedCluster) -> None:
    labelled = replace(workload("new"), labels={"profile": ""})
    view = cluster.manager.admission_view(cluster.now)
    assert view.profile_seconds(Request(labelled)) == 8.0
    assert view.profile_seconds(Request(workload("new"))) == 0.0
    assert view.known(Request(labelled)) is None


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
