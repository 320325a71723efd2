"""Profiling runs and their room; and a manager that only recommends, or takes over."""

from dataclasses import replace

import pytest

from tests.support.cluster import LABELLED, PLATFORM, Cluster, running, server, workload
from tests.support.courses import curve, filler, made, measure, of, phase, start, wants
from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.core.lifecycle import Phase
from wharfinger.core.pipeline import Mode
from wharfinger.core.seams.estimation import Profiling
from wharfinger.model.configuration import Configuration, Setting
from wharfinger.model.decisions import Decision, ReasonCode, Stage
from wharfinger.model.performance import Quantity
from wharfinger.model.profile import Entry, Measurements, Origin, ProfilingPlan, SettingEntry

# --- profiling -----------------------------------------------------------------------------------


def test_a_copy_holds_its_room_until_it_has_ended() -> None:
    cluster = made("least-loaded", 1)
    cluster.tell(ev.WorkloadSubmitted(workload("p", 100, profile=True)))
    assert cluster.manager.view.cpu_allocated.tolist() == [500]
    assert cluster.manager.view.copies.tolist() == [1]
    cluster.tell(ev.WorkloadSubmitted(workload("w", 600)))
    assert cluster.record("w").reason == "no-room"
    cluster.tell(ev.ProfilingFinished(cluster.key("p"), Measurements(runs=1)))
    cluster.check_books()
    assert phase(cluster, "w") is Phase.PLACED, "room is free while it is classified"


def test_a_copy_on_two_servers_holds_room_on_both() -> None:
    cluster = made("least-loaded", 1)
    cluster.tell(ev.ServerReported(server("b", 1)))
    cluster.tell(ev.WorkloadSubmitted(workload("p", 100, profile=True)))
    assert cluster.manager.view.cpu_allocated.tolist() == [500, 500]
    assert cluster.manager.view.copies.tolist() == [1, 1]
    cluster.check_books()
    setting = Setting(PLATFORM.name, Configuration(500), 2)
    found = Measurements(
        {Quantity.RATE: {500: Entry(10.0)}},
        further={Quantity.RATE: (SettingEntry(setting, Entry(18.0)),)},
    )
    cluster.tell(ev.ProfilingFinished(cluster.key("p"), found))
    assert cluster.manager.view.copies.tolist() == [0, 0]
    assert cluster.manager.view.cpu_allocated.tolist() == [0, 0]
    cluster.check_books()
    kept = cluster.record("p").measurements
    assert kept is not None
    assert kept.platform == PLATFORM.name, "which an engine need not say"
    entries = [kept.performance[Quantity.RATE][500], kept.further[Quantity.RATE][0].entry]
    assert [entry.measured_at for entry in entries] == [cluster.now] * 2
    assert {entry.origin for entry in entries} == {Origin.PROFILED}


def test_what_is_missing_of_a_program_completes_what_is_known_of_it() -> None:
    """It is run where it was not; the rest is that of the workload that was measured before."""

    class Completing:
        """First on ``a``; who is known is run on ``b``, too."""

        name = "completing"

        def plan(self, request, view):
            known = request.measurements is not None
            if known and request.measurements.further:
                return Profiling(told, known=True)
            plan = ProfilingPlan("b" if known else "a", (500,), 0, (), 1.0, completes=known)
            return Profiling(told, plan)

    told = Decision(Stage.PROFILING, "completing", True, ReasonCode.OK, "a plan")
    cluster = made("least-loaded", 2, planner=Completing())
    other = server("b", 2)
    cluster.tell(ev.ServerReported(replace(other, platform=replace(PLATFORM, name="other"))))
    for name, rate in (("w1", 10.0), ("w2", 20.0)):
        cluster.tell(ev.WorkloadSubmitted(wants(name, millicpus=500)))
        assert phase(cluster, name) is Phase.PROFILING
        found = Measurements({Quantity.RATE: {500: Entry(rate)}}, total=rate)
        cluster.tell(ev.ProfilingFinished(cluster.key(name), found))
        cluster.check_books()
    kept = cluster.record("w2").measurements
    assert kept is not None
    assert (kept.platform, kept.total) == (PLATFORM.name, 20.0)
    assert kept.performance[Quantity.RATE][500].value == 10.0
    (there,) = kept.further[Quantity.RATE]
    assert (there.setting.platform, there.entry.value) == ("other", 20.0)
    cluster.tell(ev.WorkloadSubmitted(wants("w3", millicpus=500)))
    assert phase(cluster, "w3") is Phase.CLASSIFYING, "nothing is missing"
    decision = cluster.record("w3").decisions[-1].decision
    assert "measured as w2" in decision.message
    # What is known so is known at once, in a core from a snapshot, too.
    previewed = cluster.manager.preview(wants("w4", millicpus=500), cluster.now)
    assert any("measured as w3" in each.message for each in previewed)
    cluster.tell(ev.WorkloadSubmitted(wants("w4", millicpus=500)))
    assert "measured as w3" in cluster.record("w4").decisions[-1].decision.message


class Beside:
    """Everybody starts cold; a copy runs beside it on another server, if one has room."""

    name = "beside"

    def plan(self, request, view):
        return Profiling(Decision(Stage.PROFILING, self.name, True, ReasonCode.OK, ""), beside=True)

    def beside(self, request, view):
        free = view.cpu_capacity - view.cpu_allocated
        servers = [name for name, room in zip(view.names, free, strict=True) if room >= 500]
        if not servers:
            return None
        plan = ProfilingPlan(servers[-1], (500,), 64 << 20, (), 1.0)
        return Profiling(Decision(Stage.PROFILING, self.name, True, ReasonCode.OK, "a copy"), plan)


FOUND = Measurements({Quantity.RATE: {500: Entry(10.0)}}, runs=1)


def begun_beside(*cpus: int, **others) -> Cluster:
    """``w`` has been placed; a copy of it is asked for if there is room."""
    cluster = made("least-loaded", *cpus, planner=Beside(), **others)
    cluster.tell(ev.WorkloadSubmitted(wants(millicpus=500, restartable=True)))
    cluster.tell(ev.WorkloadClassified(cluster.key("w"), curve((500, 1))))
    return cluster


def copies_key(cluster: Cluster) -> str:
    copies = cluster.record("w").copies
    assert copies is not None
    return copies.key


def test_copies_run_beside_what_has_been_placed() -> None:
    cluster = begun_beside(1, 1)
    assert phase(cluster, "w") is Phase.PLACED
    assert cluster.manager.view.copies.sum() == 1
    assert cluster.manager.view.cpu_allocated.sum() == 1000
    cluster.check_books()
    asked = of(act.ProfileWorkload, cluster.asked)
    assert [action.key for action in asked] == [copies_key(cluster)]
    assert copies_key(cluster) != cluster.key("w")
    running(cluster, "w")
    key, before = copies_key(cluster), len(cluster.asked)
    cluster.tell(ev.ProfilingFinished(key, FOUND))
    cluster.check_books()
    assert cluster.manager.view.copies.sum() == 0
    record = cluster.record("w")
    assert record.measurements is not None
    assert record.measurements.performance[Quantity.RATE][500].value == 10.0
    after = cluster.asked[before:]
    assert of(act.ForgetWorkload, after) == [act.ForgetWorkload(key)]
    assert [action.key for action in of(act.ClassifyWorkload, after)] == [record.key]
    cluster.tell(ev.ProfilingFinished(key, FOUND))  # Said again it is no news.
    cluster.tell(ev.WorkloadClassified(record.key, curve((500, 9))))
    assert phase(cluster, "w") is Phase.RUNNING
    assert record.classification == curve((500, 9))


def test_what_copies_tell_before_it_runs_classifies_it_once_it_does() -> None:
    cluster = begun_beside(1, 1)
    cluster.tell(ev.ProfilingFinished(copies_key(cluster), FOUND))
    before = len(of(act.ClassifyWorkload, cluster.asked))
    running(cluster, "w")
    assert len(of(act.ClassifyWorkload, cluster.asked)) == before + 1


def test_copies_end_with_what_they_run_beside() -> None:
    cluster = begun_beside(1, 1)
    running(cluster, "w")
    key = copies_key(cluster)
    cluster.tell(ev.WorkloadFinished(cluster.key("w"), 0, None, "exited"))
    assert act.ForgetWorkload(key) in cluster.asked
    assert cluster.manager.view.cpu_allocated.sum() == 0
    cluster.check_books()
    cluster.tell(ev.ProfilingFinished(key, FOUND))
    assert cluster.record("w").measurements is None


def test_copies_that_fail_change_nothing_of_what_runs() -> None:
    cluster = begun_beside(1, 1)
    running(cluster, "w")
    cluster.tell(ev.ProfilingFailed(copies_key(cluster), "the copy did nothing", fatal=True))
    record = cluster.record("w")
    assert (record.phase, record.reclassifying, record.measurements) == (Phase.RUNNING, False, None)
    cluster.check_books()


def test_without_room_for_copies_it_runs_all_the_same() -> None:
    cluster = begun_beside(1)
    cluster.tell(ev.WorkloadSubmitted(wants("x", millicpus=500)))
    cluster.tell(ev.WorkloadClassified(cluster.key("x"), curve((500, 1))))
    assert cluster.record("x").copies is None


def test_copies_end_where_it_is_measured_in_another_way() -> None:
    cluster = begun_beside(1, 1)
    running(cluster, "w")
    key, workload_ = copies_key(cluster), cluster.record("w").workload
    measured = replace(workload_.measure, progress_total=5.0)
    cluster.tell(ev.WorkloadUpdated(replace(workload_, measure=measured)))
    assert act.ForgetWorkload(key) in cluster.asked
    cluster.tell(ev.ProfilingFinished(key, FOUND))
    assert cluster.record("w").measurements is None
    cluster.check_books()


def test_copies_are_asked_for_again_by_the_next_manager() -> None:
    cluster = begun_beside(1, 1)
    running(cluster, "w")
    key = copies_key(cluster)
    cluster.start()
    cluster.sync()
    assert [each.key for each in of(act.ProfileWorkload, cluster.asked)][-1] == key
    cluster.check_books()
    cluster.tell(ev.ProfilingFinished(key, FOUND))
    assert cluster.record("w").measurements is not None


def test_room_for_profiling_comes_in_order() -> None:
    cluster = made("least-loaded", 1)
    start(cluster, workload("w", 800))
    for name in ("p1", "p2"):
        cluster.tell(ev.WorkloadSubmitted(workload(name, 100, profile=True)))
    assert [cluster.record(p).reason for p in ("p1", "p2")] == ["no-room"] * 2
    cluster.tell(ev.WorkloadFinished(cluster.key("w"), 0, None, "exited"))
    assert [phase(cluster, p) for p in ("p1", "p2")] == [Phase.PROFILING] * 2
    cluster.check_books()


class Patient:
    """A copy takes 1 CPU; for one that has waited for a minute, half of that."""

    name = "patient"

    def plan(self, request, view):
        if request.workload.target is None:
            return None
        patient = request.waited_seconds < 60
        cpu = 1000 if patient else 500
        free = view.cpu_capacity - view.cpu_allocated
        if free.max() < cpu:
            numbers = {"cpu_needed_millicpus": float(cpu)}
            told = Decision(
                Stage.PROFILING, self.name, False, ReasonCode.NO_ROOM, "full", numbers=numbers
            )
            left = 60 - request.waited_seconds
            return Profiling(told, again_at=request.now + left if patient else None)
        told = Decision(Stage.PROFILING, self.name, True, ReasonCode.OK, "a plan")
        return Profiling(told, ProfilingPlan("a", (cpu,), 0, (), 1.0))


def test_one_that_accepts_less_room_later_is_asked_then() -> None:
    cluster = made("least-loaded", 1, planner=Patient())
    start(cluster, workload("resident", 500))
    begun = cluster.now
    cluster.tell(ev.WorkloadSubmitted(wants("w", millicpus=500)))
    assert cluster.record("w").deferral is ReasonCode.NO_ROOM
    assert cluster.manager.wake_at(cluster.now) == begun + 60
    cluster.now += 30
    cluster.tell(ev.TimePassed())
    assert phase(cluster, "w") is Phase.ADMITTED
    assert cluster.manager.wake_at(cluster.now) == begun + 60
    cluster.now += 30
    cluster.tell(ev.TimePassed())
    assert phase(cluster, "w") is Phase.PROFILING
    cluster.check_books()
    assert cluster.manager.wake_at(cluster.now) is None


def test_what_no_server_could_hold_waits_for_a_place_and_holds_no_copies_up() -> None:
    class Filled:
        """There is never room for a copy."""

        name = "filled"

        def plan(self, request, view):
            return Profiling(
                Decision(Stage.PROFILING, self.name, False, ReasonCode.NO_ROOM, "none", "room")
            )

    cluster = made("least-loaded", 2, planner=Filled())
    cluster.tell(ev.WorkloadSubmitted(workload("huge", 100, memory_mib=10**6)))
    assert phase(cluster, "huge") is Phase.CLASSIFYING
    cluster.tell(ev.WorkloadClassified(cluster.key("huge"), curve((100, 1))))
    assert cluster.record("huge").reason == "too-large"
    cluster.tell(ev.WorkloadSubmitted(workload("small", 100)))
    assert phase(cluster, "small") is Phase.ADMITTED


def test_nobody_delays_one_that_waits_for_profiling_room() -> None:
    class Particular:
        """Copies take as much as is reserved."""

        name = "particular"

        def plan(self, request, view):
            wanted = request.workload
            labelled = replace(request, workload=replace(wanted, labels={"profile": "yes"}))
            asked = LABELLED.plan(labelled, view)
            free = int((view.cpu_capacity - view.cpu_allocated).max())
            fits = free >= wanted.reservation.cpu_millicpus
            reason = ReasonCode.OK if fits else ReasonCode.NO_ROOM
            decision = replace(asked.decision, accepted=fits, reason=reason)
            return replace(asked, decision=decision, plan=asked.plan if fits else None)

    cluster = made("least-loaded", 2, planner=Particular())
    for name, cpu in (("p1", 500), ("large", 1800), ("small", 100)):
        cluster.tell(ev.WorkloadSubmitted(workload(name, cpu)))
        cluster.now += 1.0
    assert [cluster.record(n).reason for n in ("large", "small")] == ["no-room", "behind-others"]
    cluster.tell(ev.ProfilingFailed(cluster.key("p1"), "nothing"))
    running(cluster, "p1")
    cluster.tell(ev.WorkloadFinished(cluster.key("p1"), 0, None, "exited"))
    assert [phase(cluster, n) for n in ("large", "small")] == [Phase.PROFILING] * 2


def test_who_waited_for_profiling_is_placed_by_a_successor_that_profiles_nothing() -> None:
    cluster = made("least-loaded", 1)
    start(cluster, workload("w", 800))
    cluster.tell(ev.WorkloadSubmitted(workload("p", 100, profile=True)))
    assert phase(cluster, "p") is Phase.ADMITTED
    cluster.planner = None
    cluster.manager = cluster.replayed()
    cluster.start()
    cluster.sync()
    assert phase(cluster, "p") is Phase.PLACED


def test_one_revoked_while_it_is_classified_is_gone_at_once() -> None:
    cluster = made("least-loaded", 1)
    cluster.tell(ev.WorkloadSubmitted(workload("p", 100, profile=True)))
    cluster.tell(ev.ProfilingFinished(cluster.key("p"), Measurements(runs=1)))
    step = cluster.tell(ev.WorkloadRevoked("p"))
    assert phase(cluster, "p") is Phase.REVOKED
    assert not of(act.StopWorkload, list(step.actions))
    assert not cluster.tell(ev.WorkloadClassified(cluster.key("p"), curve((1, 1)))).events


def test_why_it_was_revoked_is_not_told_otherwise_by_its_copy() -> None:
    cluster = made("least-loaded", 1)
    cluster.tell(ev.WorkloadSubmitted(workload("p", 100, profile=True)))
    cluster.tell(ev.WorkloadRevoked("p"))
    assert of(act.StopWorkload, cluster.asked)
    cluster.tell(ev.ProfilingFailed(cluster.key("p"), "stopped"))
    assert cluster.record("p").reason == "revoked"
    cluster.check_books()


# --- only recommending ---------------------------------------------------------------------------


def test_who_only_recommends_says_what_it_would_do_and_does_nothing() -> None:
    cluster = made("feedback", 2)
    start(cluster, wants(), filler("f"))
    before = len(cluster.asked)
    cluster.mode = Mode.RECOMMEND
    cluster.manager = cluster.replayed()
    cluster.start()
    cluster.sync()
    measure(cluster, 10, w=80)
    assert "recommended: w has violated its target" in cluster.record("w").message
    cluster.tell(ev.WorkloadSubmitted(workload("new", 100)))
    cluster.tell(ev.WorkloadClassified(cluster.key("new"), curve((100, 1))))
    cluster.tell(ev.WorkloadSubmitted(filler("f2")))
    assert cluster.record("f2").message.startswith("recommended: ")
    done = {type(action) for action in cluster.asked[before:]}
    assert done <= {act.MeasureWorkload, act.ClassifyWorkload, act.ForgetWorkload}


def test_what_is_recommended_holds_room_while_it_waits() -> None:
    cluster = Cluster(mode=Mode.RECOMMEND)
    cluster.tell(ev.ServerReported(server("s")))
    cluster.sync()
    names = [f"w{at}" for at in range(5)]
    for name in names:
        cluster.tell(ev.WorkloadSubmitted(workload(name, 2000)))
        cluster.check_books()
    reasons = [cluster.record(name).deferral for name in names[:2]]
    assert reasons == [ReasonCode.RECOMMENDED, ReasonCode.NO_ROOM]
    recommended = [name for name in names if cluster.record(name).recommended]
    assert recommended == ["w0"]
    replayed = cluster.replayed(len(cluster.log) - 2)
    assert replayed.view.cpu_allocated.tolist() == [2000]
    cluster.tell(ev.WorkloadRevoked("w0"))
    assert cluster.record("w1").deferral is ReasonCode.RECOMMENDED
    cluster.check_books()
    cluster.mode = Mode.ACT
    cluster.manager = cluster.replayed()
    cluster.start()
    cluster.check_books()
    cluster.sync()
    assert cluster.record("w1").phase is Phase.PLACED


def test_another_server_is_recommended_when_one_takes_no_more_work() -> None:
    cluster = Cluster(mode=Mode.RECOMMEND)
    cluster.tell(ev.ServerReported(server("s")))
    cluster.sync()
    cluster.tell(ev.WorkloadSubmitted(workload("w", 2000)))
    cluster.tell(ev.ServerReported(server("s", accepting=False)))
    assert cluster.record("w").recommended == ()
    cluster.tell(ev.ServerReported(server("t")))
    assert [placement.server for placement in cluster.record("w").recommended] == ["t"]
    cluster.tell(ev.ServerLeft("t", "unplugged"))
    assert cluster.record("w").recommended == ()
    assert list(cluster.manager.view.names) == ["s"]
    cluster.check_books()


@pytest.mark.parametrize(
    ("mode", "expected"),
    [(Mode.RECOMMEND, Phase.PROFILING), (Mode.RECOMMEND_COLD, Phase.CLASSIFYING)],
)
def test_it_is_profiled_to_be_recommended_by_target(mode: Mode, expected: Phase) -> None:
    cluster = Cluster(mode=mode)
    cluster.tell(ev.ServerReported(server("s")))
    cluster.sync()
    cluster.tell(ev.WorkloadSubmitted(workload("w", 1000, profile=True)))
    assert phase(cluster, "w") is expected


def test_who_only_recommends_says_of_a_suspended_one_that_it_could_go_on() -> None:
    cluster = made("feedback", 2)
    start(cluster, wants(), filler("f"))
    measure(cluster, 2, w=80)
    cluster.mode = Mode.RECOMMEND
    cluster.manager = cluster.replayed()
    cluster.start()
    cluster.sync()
    measure(cluster, 5, w=100)
    assert phase(cluster, "f") is Phase.SUSPENDED
    assert cluster.record("f").message.startswith("recommended: no neighbor violates")
    assert cluster.manager.wake_at(cluster.now) is None, "and nobody is woken for it"


# --- take-over -----------------------------------------------------------------------------------


def test_what_was_measured_before_a_take_over_is_not_acted_on_again() -> None:
    cluster = made()
    start(cluster, wants(millicpus=400), filler("f"))
    measure(cluster, 1, w=80)
    cluster.now += 5
    measure(cluster, 1, w=80)  # resized
    cluster.tell(ev.ResizeFailed(cluster.key("w"), "no"))
    cluster.manager = cluster.replayed()
    cluster.now += 3600
    cluster.start()
    step = cluster.sync()
    assert not [e for e in step.events if isinstance(e, ev.AllocationPlanned)]
    assert phase(cluster, "f") is Phase.RUNNING
