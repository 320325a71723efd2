"""What is drawn for a course of events: workloads, servers, what an engine can do."""

from dataclasses import replace

from hypothesis import strategies as st

from tests.support.cluster import MIB, server, workload
from wharfinger.model.requirements import Requirement, Requires
from wharfinger.model.view import Capabilities, Resize, WorkloadLimits
from wharfinger.model.workload import (
    After,
    ArrayMember,
    MissedRun,
    Probe,
    Restart,
    RestartPolicy,
    Scale,
    Schedule,
    Target,
    Workload,
    WorkloadType,
)

MEMBERS = [f"x-{i}" for i in range(4)]
AT_ONCE = 2
NAMES = st.sampled_from([f"w{i}" for i in range(12)])
ANY_NAMES = st.sampled_from([*(f"w{i}" for i in range(8)), *MEMBERS])
SERVERS = st.sampled_from(["a", "b", "c"])
USED_SERVERS = st.builds(
    lambda name, cpus, accepting, cpu, memory_mib, labels: replace(
        server(name, cpus, accepting=accepting),
        others_cpu_millicpus=cpu,
        others_memory_bytes=memory_mib * MIB,
        labels=labels,
    ),
    name=SERVERS,
    cpus=st.integers(1, 4),
    accepting=st.sampled_from([True, True, False]),
    cpu=st.sampled_from([0, 0, 500, 2000, 9000]),
    memory_mib=st.sampled_from([0, 0, 1024, 4096]),
    labels=st.sampled_from([{}, {"disk": "ssd"}, {"disk": "hdd"}]),
)
"""Servers of which others hold something, also more than there is."""
REQUIRES = st.sampled_from(
    [
        (),
        (),
        (Requirement("disk", ("ssd",)),),
        (Requirement("disk", ("hdd", "nvme"), excluded=True),),
    ]
)
POLICIES = [
    "quasar",
    "feedback",
    "least-loaded",
    "round-robin",
    "random",
    "sparrow",
    "preempting",
    "backfill",
]
ADMITTING = [
    "quasar + arq[queues=20,platforms=suitable]",
    "least-loaded + arq[queues=20,higher=empty,order=shortest]",
]
"""With an admission that keeps classes and diverts."""
SPREADING = ["autoscale", "spreading-by-load", "spreading-by-pace"]
TARGETS = [None, Target(rate_per_second=100.0), Target(completion_seconds=300.0)]
ABLE = st.builds(
    Capabilities,
    fractional_cpu=st.booleans(),
    resize=st.sampled_from([Resize.ANY, Resize.ANY, Resize.WITHIN_ALLOCATION, Resize.NONE]),
    suspend=st.sampled_from([True, True, False]),
    measures=st.booleans(),
    probes=st.booleans(),
    offers=st.booleans(),
    annotates=st.booleans(),
)
LIMITS = st.builds(
    WorkloadLimits,
    st.sampled_from(Resize),
    st.booleans(),
    st.sampled_from([None, 1, 2]),
)


def wanted_workload(
    target: Target | None,
    *,
    restartable: bool,
    servers: int = 1,
    serves: bool = False,
    elastic: bool = False,
    lasting: float | None = None,
    waiting: float | None = None,
    requires: Requires = (),
    **stated,
):
    made = workload(**stated)
    run = replace(made.run, restartable=restartable)
    made = replace(made, run=run, scale=Scale(servers), target=None if made.best_effort else target)
    kind = WorkloadType.LATENCY_CRITICAL if serves and not made.best_effort else made.type
    reservation = replace(made.reservation, elastic_cpu=elastic, elastic_memory=elastic)
    return replace(
        made,
        type=kind,
        reservation=reservation,
        expected_seconds=lasting,
        waiting_seconds=None if made.best_effort else waiting,
        requires=requires,
    )


WORKLOADS = st.builds(
    wanted_workload,
    target=st.sampled_from(TARGETS),
    restartable=st.booleans(),
    servers=st.integers(1, 3),
    serves=st.booleans(),
    elastic=st.booleans(),
    lasting=st.sampled_from([None, 5.0, 200.0]),
    waiting=st.sampled_from([None, 0.0, 60.0]),
    requires=REQUIRES,
    name=NAMES,
    millicpus=st.sampled_from([100, 500, 1000, 2500, 9000]),
    memory_mib=st.sampled_from([64, 1024, 4096]),
    priority=st.integers(-1, 1),
    best_effort=st.booleans(),
    profile=st.booleans(),
)


def _with_conditions(
    made: Workload,
    name: str,
    restart: Restart,
    limit: float | None,
    probed: bool,
    after: After | None,
    schedule: Schedule | None,
    ttl: float | None,
) -> Workload:
    """The same with what its user may state about its runs; a member of an array by its name."""
    ready = Probe(port=1) if probed else None
    run = replace(made.run, restart=restart, time_limit_seconds=limit, ready=ready)
    array, _, index = name.partition("-")
    return replace(
        made,
        name=name,
        run=run,
        array=ArrayMember(array, int(index), AT_ONCE) if index else None,
        after=after,
        schedule=schedule,
        ttl_after_finished_seconds=ttl,
    )


AWAITED = st.lists(st.sampled_from(["w0", "w1", "x-0", "x"]), max_size=2, unique=True).map(tuple)
DEMANDING = st.builds(
    _with_conditions,
    WORKLOADS,
    name=ANY_NAMES,
    restart=st.builds(
        Restart,
        st.sampled_from([RestartPolicy.NEVER, *RestartPolicy]),
        st.sampled_from([0, 2, None]),
        st.sampled_from([0.0, 1.0, 30.0]),
    ),
    limit=st.sampled_from([None, None, 50.0]),
    probed=st.booleans(),
    after=st.one_of(st.none(), st.none(), st.builds(After, AWAITED, AWAITED, AWAITED)),
    schedule=st.one_of(
        *[st.none()] * 3,
        st.builds(
            Schedule,
            st.sampled_from(["* * * * *", "*/5 * * * *"]),
            st.just("UTC"),
            st.sampled_from(MissedRun),
        ),
    ),
    ttl=st.sampled_from([None, None, 0.0, 40.0]),
)
"""Workloads whose users have stated all that can be stated about their runs."""
