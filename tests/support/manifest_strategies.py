"""Arbitrary valid workloads, as ``load_manifests`` can make them."""

from hypothesis import strategies as st

from wharfinger.manifest import fields, kinds
from wharfinger.model import units
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
    Target,
    Workload,
    WorkloadType,
)

# What a manifest can hold as text: all but NUL and half characters.
texts = st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), max_size=20)
names = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?", fullmatch=True)
durations = st.integers(1, 10**15).map(lambda nanoseconds: nanoseconds / 10**9)
rates = st.floats(0, units.MAX_RATE_PER_SECOND, exclude_min=True)
commands = st.builds(
    lambda program, arguments: (program, *arguments),
    texts.filter(bool),
    st.lists(texts, max_size=4),
)
directories = st.lists(
    st.from_regex(r"[^/\0.~\ud800-\udfff]{1,8}", fullmatch=True), max_size=4
).map(lambda parts: "/" + "/".join(parts))


@st.composite
def targets(draw, kind):
    if kind is WorkloadType.BEST_EFFORT:
        return None
    if kind is WorkloadType.LATENCY_CRITICAL:
        latency = st.builds(
            LatencyBound, st.floats(0, 100, exclude_min=True, exclude_max=True), durations
        )
        both = draw(st.sampled_from(["throughput", "latency", "both"]))
        return Target(
            throughput_per_second=draw(rates) if both != "latency" else None,
            latency=draw(latency) if both != "throughput" else None,
        )
    choices = st.none() | st.builds(Target, completion_seconds=durations)
    return draw(choices | st.builds(Target, rate_per_second=rates))


patterns = st.sampled_from([r"ops=(\d+)", "(?P<rate>[0-9]+)/s", "a'\"\\n:(.) # "])
urls = st.sampled_from(["http://127.0.0.1:80/metrics", "https://a.b-c", "http://[::1]:65535/a?b=1"])
metrics = st.sampled_from(["up", 'http_total{code="200",m="a b"}'])
percentiles = st.floats(0, 100, exclude_min=True, exclude_max=True)
plain_kinds = st.sampled_from([MetricKind.COUNTER, MetricKind.GAUGE])
endpoints = st.builds(HttpMeasure, urls, st.none() | metrics, plain_kinds) | st.builds(
    HttpMeasure, urls, metrics, st.just(MetricKind.HISTOGRAM), st.none() | percentiles
)


@st.composite
def measures(draw, service):
    own = draw(st.none() | patterns)
    load = service and draw(st.booleans())
    kinds = st.none() | st.sampled_from(NumberKind)
    kind = draw(kinds) if own else None
    command = draw(st.none() | commands)
    http = draw(st.none() | endpoints)
    counts = own and "rate" not in own and kind is not NumberKind.GAUGE
    otherwise_read = own or command or http
    return Measure(
        own,
        draw(commands) if load else None,
        draw(st.none() | directories) if own else None,
        draw(st.none() | st.floats(1e-9, 1e18)) if counts else None,
        kind,
        http,
        command,
        draw(kinds) if command else None,
        draw(st.none() | patterns if otherwise_read else patterns) if load else None,
        draw(st.floats(1, fields.MAX_PROFILE_SECONDS)),
    )


@st.composite
def workloads(draw):
    kind = draw(st.sampled_from(WorkloadType))
    modes = [mode for mode in ProfileMode if kind != "best-effort" or mode is not ProfileMode.COPY]
    servers = st.just(1) if kind is WorkloadType.SINGLE_NODE else st.integers(1, fields.MAX_SERVERS)
    service = kind is WorkloadType.LATENCY_CRITICAL
    return Workload(
        name=draw(names),
        type=kind,
        run=Run(
            draw(commands),
            draw(
                st.dictionaries(st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,9}", fullmatch=True), texts)
            ),
            draw(directories),
            draw(st.just(0.0) | durations),
        ),
        target=draw(targets(kind)),
        tolerance=draw(st.floats(0, 1, exclude_max=True)),
        priority=draw(st.integers(-fields.MAX_PRIORITY, fields.MAX_PRIORITY)),
        scale=Scale(draw(servers)),
        reservation=Reservation(
            draw(st.integers(1, units.MAX_CPU_MILLICPUS)),
            draw(st.integers(kinds.MIN_MEMORY_BYTES, units.MAX_BYTES)),
        ),
        profile=Profile(
            draw(st.sampled_from(modes)), draw(st.floats(0.1, fields.MAX_PROFILE_SECONDS))
        ),
        measure=draw(measures(service)),
        labels=draw(st.dictionaries(names, texts, max_size=4)),
    )
