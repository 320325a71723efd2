"""Arbitrary valid workloads, as ``load_manifests`` can make them."""

from dataclasses import replace

from hypothesis import strategies as st

from wharfinger.manifest import arrays, fields, kinds, rules
from wharfinger.manifest.requires import requires_of
from wharfinger.model import units
from wharfinger.model.workload import (
    Adapt,
    After,
    HttpMeasure,
    LatencyBound,
    Measure,
    MetricKind,
    MissedRun,
    NumberKind,
    OnMiss,
    Probe,
    Profile,
    ProfileMode,
    Reservation,
    Restart,
    RestartPolicy,
    Run,
    Scale,
    Schedule,
    Spread,
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


percentiles = st.floats(1, 100, exclude_max=True)


@st.composite
def targets(draw, kind):
    if kind is WorkloadType.BEST_EFFORT:
        return None
    if kind is WorkloadType.LATENCY_CRITICAL:
        latency = st.builds(LatencyBound, percentiles, durations)
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


restarts = st.builds(
    Restart,
    st.sampled_from(RestartPolicy),
    st.none() | st.integers(0, fields.MAX_RESTARTS),
    durations,
).map(lambda one: replace(one, never_stated=one.policy is RestartPolicy.NEVER))
name_lists = st.lists(names, max_size=3, unique=True).map(tuple)
zones = st.sampled_from(["UTC", "Europe/Berlin", "America/Argentina/Ushuaia"])
crons = st.sampled_from(["0 2 * * *", "*/5 9-17 * * MON-FRI", "0 0 L * 1#2"])
schedules = st.builds(Schedule, crons, zones, st.sampled_from(MissedRun))


@st.composite
def probes(draw, ways):
    way = draw(st.sampled_from(ways))
    value = {
        "port": st.integers(1, 65535),
        "http": urls,
        "command": commands,
        "line": patterns,
    }[way]
    nanoseconds = st.integers(int(rules.MIN_PROBE_SECONDS * 10**9), 10**15)
    return Probe(
        **{way: draw(value)},
        every_seconds=draw(nanoseconds) / 10**9,
        timeout_seconds=draw(durations),
        failures=draw(st.integers(1, fields.MAX_FAILURES)),
    )


@st.composite
def runs(draw):
    variables = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,9}", fullmatch=True)
    return Run(
        draw(commands),
        draw(st.dictionaries(variables, texts)),
        draw(directories),
        draw(st.just(0.0) | durations),
        draw(st.booleans()),
        draw(restarts),
        draw(st.none() | probes(rules.PROBE_WAYS)),
        draw(st.none() | probes(rules.PROBE_WAYS[:-1])),
        draw(st.none() | durations),
        draw(st.sampled_from(fields.STOP_SIGNALS)),
        draw(st.sampled_from(["", "www-data", "me"])),
    )


@st.composite
def reservations(draw):
    cpu, memory = draw(st.booleans()), draw(st.booleans())
    stated = Reservation(
        draw(st.integers(1, units.MAX_CPU_MILLICPUS)),
        draw(st.integers(kinds.MIN_MEMORY_BYTES, units.MAX_BYTES)),
    )
    return Reservation(
        stated.cpu_millicpus if cpu else fields.UNSTATED.cpu_millicpus,
        stated.memory_bytes if memory else fields.UNSTATED.memory_bytes,
        elastic_cpu=not cpu,
        elastic_memory=not memory,
    )


@st.composite
def array_members(draw, workload):
    """The workload as a member of an array, as the loader makes it."""
    index = draw(st.integers(0, arrays.MAX_INDEX))
    array = arrays.ArrayRange((index,), draw(st.none() | st.integers(1, 99_999)))
    (member,) = arrays.members(workload, array)
    return member


values = texts.filter(lambda text: text.lstrip("!") == text != "")
requirements = st.dictionaries(
    names, st.tuples(st.booleans(), st.lists(values, min_size=1, max_size=3)), max_size=3
).map(
    lambda stated: requires_of(
        (label, tuple(f"!{value}" if excluded else value for value in one))
        for label, (excluded, one) in stated.items()
    )
)


@st.composite
def workloads(draw):
    workload = draw(single_workloads())
    waits_for = draw(st.none() | st.builds(After, name_lists, name_lists, name_lists))
    if waits_for not in (None, After()):
        others = (waits_for.completed, waits_for.ended, waits_for.ready)
        waits_for = After(*(tuple(f"{name}-x" for name in each) for each in others))
        workload = replace(workload, after=waits_for)
    return draw(st.just(workload) | array_members(workload))


@st.composite
def single_workloads(draw):
    kind = draw(st.sampled_from(WorkloadType))
    modes = [mode for mode in ProfileMode if kind != "best-effort" or mode is not ProfileMode.COPY]
    servers = st.just(1) if kind is WorkloadType.SINGLE_NODE else st.integers(1, fields.MAX_SERVERS)
    service = kind is WorkloadType.LATENCY_CRITICAL
    target, expected = draw(targets(kind)), draw(st.none() | durations)
    waiting = draw(st.none() | st.just(0.0) | durations)
    tolerance, measure = draw(st.floats(0, 1, exclude_max=True)), draw(measures(service))
    deadline = None if target is None else target.completion_seconds
    if expected is not None and deadline is not None:
        expected = min(expected, deadline)
    if target is not None and target.rate_per_second and measure.progress_total is not None:
        deadline = measure.progress_total / (target.rate_per_second * (1 - tolerance))
    if waiting is not None and deadline is not None and waiting + (expected or 0.0) >= deadline:
        waiting = None
    return Workload(
        name=draw(names),
        type=kind,
        run=draw(runs()),
        target=target,
        tolerance=tolerance,
        priority=draw(st.integers(-fields.MAX_PRIORITY, fields.MAX_PRIORITY)),
        scale=Scale(
            draw(servers),
            draw(st.booleans()),
            draw(st.booleans()),
            draw(st.none() | st.just(Spread.ZONE)),
        ),
        reservation=draw(reservations()),
        profile=Profile(
            draw(st.sampled_from(modes)), draw(st.floats(0.1, fields.MAX_PROFILE_SECONDS))
        ),
        measure=measure,
        max_cost_per_hour=draw(st.none() | st.floats(1e-6, units.MAX_MONEY)),
        labels=draw(st.dictionaries(names, texts, max_size=4)),
        expected_seconds=expected,
        schedule=draw(st.none() | schedules),
        ttl_after_finished_seconds=draw(st.none() | durations),
        on_miss=draw(st.sampled_from(OnMiss)),
        adapt=draw(st.sampled_from(Adapt)),
        waiting_seconds=waiting,
        requires=draw(requirements),
    )
