"""What goes into the log comes out of it the same."""

from dataclasses import replace
from typing import get_args

import pytest

from tests.support.cluster import PLATFORM, Cluster, running, server, workload
from wharfinger.core import events as ev
from wharfinger.core.codec import decode_event, decode_state, encode_event, encode_state
from wharfinger.core.state import ManagerState
from wharfinger.core.tracking import Observation, ProbeCause, TargetTracking, Tracked
from wharfinger.errors import NewerState, StoreDamaged
from wharfinger.model.allocation import Allocation, Placement
from wharfinger.model.configuration import Configuration, Setting
from wharfinger.model.decisions import Candidate, Decision, Prediction, ReasonCode, Stage
from wharfinger.model.interference import SharedResource
from wharfinger.model.pairs import PairProfile
from wharfinger.model.performance import NoSignal, Quantity, Reading, Sample
from wharfinger.model.platform import Condition, ConditionKind, Server
from wharfinger.model.profile import (
    Classification,
    Curve,
    Entry,
    Estimate,
    FurtherRun,
    Measurements,
    Origin,
    ProfilingPlan,
    SettingEntry,
)
from wharfinger.model.view import Capabilities, Resize, WorkloadLimits
from wharfinger.model.workload import (
    HttpMeasure,
    LatencyBound,
    Measure,
    MetricKind,
    NumberKind,
    Profile,
    ProfileMode,
    Reservation,
    Run,
    Scale,
    Spread,
    Target,
    Workload,
    WorkloadType,
)

DECISION = Decision(
    Stage.PLACEMENT,
    "least-loaded",
    True,
    ReasonCode.OK,
    "größer als 1 µs",
    "nothing",
    2,
    (Candidate("a", 0.1, numbers={"cpu_free_millicpus": 3.0}), Candidate("b", None)),
    {"x": 1e-300},
    Prediction(1.0, 0.5, 1.5, 0.9),
)
PLACES = (Placement("a", Allocation(1, 2**62)), Placement("b", Allocation(0, 1, best_effort=True)))
EVERYTHING = Workload(
    "w",
    WorkloadType.LATENCY_CRITICAL,
    Run(("sh", "-c", "\x00\u2028"), {"TOKEN": "s3cret"}, "/srv", 0.5),
    Target(4e4, LatencyBound(99.9, 0.002), 60.0, 1.2e9),
    0.1,
    -3,
    Scale(8, True, True, Spread.ZONE),
    Reservation(250, 2**30),
    Profile(ProfileMode.LIVE, 3.0),
    Measure(
        r"ops=(\d+)",
        ("load", "-l"),
        "/srv/log",
        1e6,
        NumberKind.GAUGE,
        HttpMeasure("http://h/metrics", "m", MetricKind.HISTOGRAM, 99.0),
        ("count",),
        NumberKind.COUNTER,
        "p=(.)",
        5.0,
    ),
    4.5,
    {"team": "web"},
)
SERVER = Server(
    "s",
    PLATFORM,
    2000,
    2**33,
    "z",
    False,
    (Condition(ConditionKind.NO_CPU_QUOTA, "no cpu controller"),),
    500,
    2**20,
    {"gpu": "a100"},
)
SETTING = Setting("fast", Configuration(1000, 2**30, parameters=(("heap", "1Gi"),)), 2)
PROFILING = ProfilingPlan(
    "s",
    (1000, 500),
    2**28,
    (SharedResource.INTEGER,),
    8.0,
    further=(FurtherRun(SETTING, ("s", "t")),),
    beside=("sort",),
)
MEASUREMENTS = Measurements(
    {Quantity.RATE: {500: Entry(10.0, 0.02), 1000: Entry(19.5, 0.01)}},
    {SharedResource.INTEGER: Entry(100.0, 0.0, True)},
    {SharedResource.STORAGE_BANDWIDTH: Entry(12.0, 3.0)},
    total=1000.0,
    silent={"tolerated/storage-bandwidth": "no signal"},
    runs=2,
    seconds=8.5,
    platform="usual",
    further={Quantity.RATE: (SettingEntry(SETTING, Entry(36.0, origin=Origin.OBSERVED)),)},
    beside={"sort": Entry(0.7, 0.02)},
    upon={"sort": Entry(0.0)},
)
CLASSIFICATION = Classification(
    "gaussian",
    "1",
    {Quantity.RATE: Curve((500, 1000), (Estimate(10.0, 0.1), Estimate(19.5, 0.1)))},
    Curve((500, 1000), (Estimate(0.5, 0.3), Estimate(1.0, 0.0))),
    {SharedResource.INTEGER: Estimate(80.0, 10.0)},
    {SharedResource.INTEGER: Estimate(40.0, 10.0)},
    1000.0,
    4,
    "usual",
    {"fast": Estimate(1.5, 0.2)},
    {2: Estimate(1.8, 0.1)},
    pairs={
        "fast": PairProfile("b", (0.1, 1.0), (1.0, 0.2), (0.01, 0.0), (0.0, 0.1), (0.5,), (1.0,))
    },
)

EXAMPLES: tuple[ev.Event, ...] = (
    ev.ServerReported(SERVER),
    ev.ServersReported((SERVER, replace(SERVER, name="t", accepting=True))),
    ev.ServerLeft("s", "unplugged"),
    ev.EngineSynced(("k",), ("s",)),
    ev.StartAccepted("k"),
    ev.WorkloadStarted("k", "pid 1", 1.5),
    ev.StartFailed("k", "busy", True),
    ev.WorkloadFinished("k", None, 9, "killed", 0.25, 2.5),
    ev.WorkloadOffered(EVERYTHING, "job 7", WorkloadLimits(Resize.NONE, max_servers=2)),
    ev.OfferWithdrawn("w", "cancelled"),
    ev.WorkloadEvicted("k", "node-failure: n3 is down"),
    ev.PlacementsLost("k", PLACES[:1], "node-failure"),
    ev.WorkloadVanished("k", "gone"),
    ev.AllocationResized("k", PLACES),
    ev.ResizeFailed("k", "no", PLACES),
    ev.ServerMeasured(
        "s",
        (
            Sample(
                "k",
                {Quantity.CPU: Reading(0.5, "CPU time (proxy)", False, -0.25)},
                {Quantity.LATENCY: NoSignal("nothing yet")},
            ),
        ),
    ),
    ev.ProfilingFinished("k", MEASUREMENTS),
    ev.ProfilingFailed("k", "no"),
    ev.ClassificationFailed("k", "no"),
    ev.WorkloadProbed("k", 2, MEASUREMENTS),
    ev.WorkloadProbed("k", 2, Measurements(), "no"),
    ev.WorkloadClassified("k", CLASSIFICATION),
    ev.ManagerStarted(
        "n",
        "1",
        "p",
        "a",
        "e",
        Capabilities(8, False, Resize.WITHIN_ALLOCATION, False, False),
        {"core": {"keep_ended": 3}, "placement": {"name": "p", "sizing": {"confidence": 0.9}}},
    ),
    ev.HistoryLost("the disk forgot"),
    ev.TimePassed(),
    ev.WorkloadSubmitted(EVERYTHING),
    ev.WorkloadUpdated(EVERYTHING),
    ev.WorkloadRevoked("w"),
    ev.WorkloadForgotten("w"),
    ev.WorkloadAdmitted("w", DECISION),
    ev.WorkloadRejected("w", DECISION),
    ev.ProfilingPlanned("w", "k", DECISION, PROFILING),
    ev.WorkloadQueued("w", "guaranteed"),
    ev.WorkloadQueued("w", "guaranteed", DECISION, 7.5),
    ev.WorkloadDiverted("w", "guaranteed", DECISION, 7.5),
    ev.WorkloadReviewed("w", DECISION, 7.5),
    ev.WorkloadDeferred("w", DECISION),
    ev.WorkloadDeferred("w", DECISION, 7.5),
    ev.WorkloadPlaced("w", "k", PLACES, DECISION),
    ev.AllocationPlanned("w", PLACES, DECISION),
    ev.AllocationUnchanged("w", DECISION),
    ev.ClassificationPlanned("w", "k", DECISION),
    ev.ClassificationPlanned("w", "k", DECISION, beside=True),
    ev.CopiesPlanned("w", "k", DECISION, ProfilingPlan("s", (500,), 1 << 20, (), 1.0)),
    ev.ReclassificationPlanned("w", DECISION),
    ev.ReclassificationPlanned("w", DECISION, MEASUREMENTS),
    ev.ProbePlanned(
        "w", DECISION, ProbeCause.REACTIVE, (SharedResource.LAST_LEVEL_CACHE,), 0.05, PLACES
    ),
    ev.WorkloadSuspended("w", "x", DECISION),
    ev.WorkloadResumed("w", DECISION, ineffective=True),
    ev.WorkloadMigrated("w", DECISION, PLACES),
    ev.WorkloadPreempted("w", "x", DECISION),
    ev.TargetsTracked(
        (
            Tracked(
                "w",
                TargetTracking(0.8, -1, 3.5, None, True),
                (Observation(Quantity.RATE, 500, Entry(10.0, 0.02), (250,)),),
                True,
            ),
            Tracked("x", None),
        )
    ),
    ev.TrackingLost(("w",)),
    ev.PolicyNoted("placement:p", "note"),
    ev.ServerOrdered("o", "fast", DECISION, "w"),
    ev.ServerAcquired("o", SERVER),
    ev.AcquisitionFailed("o", "none left"),
    ev.ServerReleased("s", DECISION),
    ev.PlacementDelegated("w", "q", "other", DECISION),
    ev.PlacementProposed("q", PLACES, (3, 4), DECISION),
    ev.PlacementConflicted("w", DECISION),
    ev.ReadinessChanged("k", ready=False, reason="port 80: connection refused"),
    ev.RestartRequested("w"),
    ev.SuspendRequested("w"),
    ev.ResumeRequested("w"),
    ev.ServerCordoned("a", drain=True, reason="new memory"),
    ev.ServerUncordoned("a"),
    ev.RunScheduled("w", 1.5, DECISION),
    ev.RunBegun("w", "schedule"),
    ev.TimeLimitReached("w"),
)


@pytest.mark.parametrize("event", EXAMPLES, ids=lambda event: type(event).__name__)
def test_every_event_comes_back_as_it_was(event: ev.Event) -> None:
    assert decode_event(*encode_event(event)) == event


def test_there_is_an_example_of_every_event() -> None:
    assert {type(event) for event in EXAMPLES} == set(get_args(ev.Event))


def test_a_state_comes_back_with_its_servers_in_the_order_in_which_they_joined() -> None:
    cluster = Cluster()
    for name in ("z", "m", "a"):
        cluster.tell(ev.ServerReported(server(name)))
    cluster.sync()
    cluster.tell(ev.WorkloadSubmitted(workload("w")))
    running(cluster, "w")
    state = decode_state(encode_state(cluster.manager.state))
    assert state == cluster.manager.state
    assert list(state.servers) == ["z", "m", "a"]
    assert encode_state(state) == encode_state(cluster.manager.state)


def test_what_older_versions_logged_has_no_pairs() -> None:
    classified = b'{"key": "k", "classification": {"estimator": "gaussian", "version": "1"}}'
    event = decode_event("WorkloadClassified", classified)
    assert isinstance(event, ev.WorkloadClassified)
    assert event.classification.pairs == {}


def test_an_event_of_a_newer_version_may_have_more_fields() -> None:
    assert decode_event("StartAccepted", b'{"key": "k", "later": 1}') == ev.StartAccepted("k")


def test_an_event_of_an_unknown_kind_is_a_newer_versions() -> None:
    with pytest.raises(NewerState, match="unknown kind 'NoSuchEvent'"):
        decode_event("NoSuchEvent", b"{}")


@pytest.mark.parametrize(
    ("kind", "payload"),
    [("StartAccepted", b"{}"), ("StartAccepted", b"\xff")],
)
def test_what_is_no_event_is_damage(kind: str, payload: bytes) -> None:
    with pytest.raises(StoreDamaged, match="event"):
        decode_event(kind, payload)


@pytest.mark.parametrize("payload", [b"", b"[]", b'{"workloads": 1}'])
def test_what_is_no_state_is_damage(payload: bytes) -> None:
    with pytest.raises(StoreDamaged, match="snapshot"):
        decode_state(payload)


@pytest.mark.parametrize(("logged", "read"), [(True, Resize.ANY), (False, Resize.NONE)])
def test_what_an_engine_could_resize_is_read_as_it_was_written_before(
    logged: bool, read: Resize
) -> None:
    started = next(event for event in EXAMPLES if isinstance(event, ev.ManagerStarted))
    now, then = b'"resize":"within-allocation"', f'"resize":{str(logged).lower()}'.encode()
    kind, payload = encode_event(started)
    before = payload.replace(now, then)
    assert before != payload
    assert decode_event(kind, before).capabilities.resize is read
    state = ManagerState(capabilities=started.capabilities)
    payload = encode_state(state)
    before = payload.replace(now, then)
    assert before != payload
    assert decode_state(before).capabilities.resize is read


def test_the_lesser_of_what_an_engine_and_a_workload_allow() -> None:
    able = Capabilities(4)
    assert able.within(None) is able
    rigid = able.within(WorkloadLimits(Resize.WITHIN_ALLOCATION, suspend=False, max_servers=8))
    assert (rigid.resize, rigid.suspend) == (Resize.WITHIN_ALLOCATION, False)
    assert rigid.max_servers_per_workload == 4
    assert rigid.within(WorkloadLimits(Resize.ANY, max_servers=1)).max_servers_per_workload == 1
    assert Capabilities(resize=Resize.NONE).within(WorkloadLimits()).resize is Resize.NONE
