"""What is drawn for a course of events: workloads, servers, what an engine can do."""

from dataclasses import replace

from hypothesis import strategies as st

from tests.support.cluster import workload
from wharfinger.model.view import Capabilities
from wharfinger.model.workload import Scale, Target, WorkloadType

NAMES = st.sampled_from([f"w{i}" for i in range(12)])
SERVERS = st.sampled_from(["a", "b", "c"])
POLICIES = ["quasar", "feedback", "least-loaded", "round-robin", "random", "sparrow"]
SPREADING = ["autoscale", "spreading-by-load", "spreading-by-pace"]
TARGETS = [None, Target(rate_per_second=100.0), Target(completion_seconds=300.0)]
ABLE = st.builds(
    Capabilities,
    fractional_cpu=st.booleans(),
    resize=st.sampled_from([True, True, False]),
    suspend=st.sampled_from([True, True, False]),
    measures=st.booleans(),
)


def wanted_workload(
    target: Target | None, *, restartable: bool, servers: int = 1, serves: bool = False, **stated
):
    made = workload(**stated)
    run = replace(made.run, restartable=restartable)
    made = replace(made, run=run, scale=Scale(servers), target=None if made.best_effort else target)
    kind = WorkloadType.LATENCY_CRITICAL if serves and not made.best_effort else made.type
    return replace(made, type=kind)


WORKLOADS = st.builds(
    wanted_workload,
    target=st.sampled_from(TARGETS),
    restartable=st.booleans(),
    servers=st.integers(1, 3),
    serves=st.booleans(),
    name=NAMES,
    millicpus=st.sampled_from([100, 500, 1000, 2500, 9000]),
    memory_mib=st.sampled_from([64, 1024, 4096]),
    priority=st.integers(-1, 1),
    best_effort=st.booleans(),
    profile=st.booleans(),
)
