"""The rules between fields, in words for ``load_manifests`` and in JSON Schema's terms.

``sections`` has read the fields; a rule compares those that are right by themselves. Each rule that
JSON Schema can say stands in ``schema_rules`` too.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import TypeAlias

from wharfinger.manifest.arrays import member_name
from wharfinger.manifest.fields import DEFAULT_TTL_SECONDS, UNSTATED
from wharfinger.manifest.kinds import Json
from wharfinger.manifest.sections import Document
from wharfinger.model.units import format_duration, quoted
from wharfinger.model.workload import (
    DEFAULT_TOLERANCE,
    After,
    ArrayMember,
    MetricKind,
    NumberKind,
    Probe,
    ProfileMode,
    Reservation,
    Restart,
    RestartPolicy,
    Workload,
    WorkloadType,
)

TARGET_FIELDS = {
    WorkloadType.SINGLE_NODE: ("rate", "completionTime"),
    WorkloadType.BATCH: ("completionTime", "rate"),
    WorkloadType.LATENCY_CRITICAL: ("throughput", "latency"),
    WorkloadType.BEST_EFFORT: (),
}
"""How each type states its target (Quasar 3.1)."""

SERVICE_RESTART = Restart(RestartPolicy.ON_FAILURE)
"""Of services whose users state nothing."""
MAX_START_BYTES = 1024**2
"""Of arguments and environment together; the kernel takes twice that at the usual stack size."""

PROBE_WAYS = ("port", "http", "command", "line")
"""How a probe may look; ``alive`` does without the last."""

MIN_PROBE_SECONDS = 0.1

_SERVICE = WorkloadType.LATENCY_CRITICAL
_READERS = ("progress", "http", "command")
_Contradictions: TypeAlias = Iterator[tuple[str, str]]
"""Fields that contradict others, and what to say of them."""


def check_rules(document: Document) -> None:
    """Check a document's fields against each other; contradictions go to its problems."""
    kind = document.values.get("spec.type")
    by_type = [] if kind is None else [*_target(document, kind), *_by_type(document, kind)]
    anyway = (_name, _array, _probes, _after, _http, _total, _start_size, _expected, _waiting)
    for path, message in (*by_type, *(each for rule in anyway for each in rule(document))):
        document.wrong(path, message)


def complete(workload: Workload, document: Document) -> Workload:
    """A workload with the defaults that depend on more than the field itself."""
    stated, run, profile = document.lines, workload.run, workload.profile
    if "spec.run.workingDir" not in stated:
        run = replace(run, working_directory=document.working_directory)
    if "spec.run.restart" in stated:
        never = run.restart.policy is RestartPolicy.NEVER
        run = replace(run, restart=replace(run.restart, never_stated=never))
    elif workload.type is _SERVICE:
        run = replace(run, restart=SERVICE_RESTART)
    if workload.best_effort and "spec.profile.mode" not in stated and not _is_measured(document):
        profile = replace(profile, mode=ProfileMode.NONE)
    ttl = workload.ttl_after_finished_seconds
    if "spec.ttlAfterFinished" not in stated:
        ttl = DEFAULT_TTL_SECONDS
    return replace(
        workload,
        run=run,
        profile=profile,
        reservation=_reservation(workload.reservation, document),
        ttl_after_finished_seconds=ttl,
    )


def _reservation(reservation: Reservation, document: Document) -> Reservation:
    """What is stated is fixed; the rest begins small and follows its use."""
    if "spec.resources.cpu" not in document.lines:
        cpu = UNSTATED.cpu_millicpus
        reservation = replace(reservation, cpu_millicpus=cpu, elastic_cpu=True)
    if "spec.resources.memory" not in document.lines:
        memory = UNSTATED.memory_bytes
        reservation = replace(reservation, memory_bytes=memory, elastic_memory=True)
    return reservation


def _is_measured(document: Document) -> bool:
    """Whether it states how its performance is read."""
    return any(path.startswith("spec.measure.") for path in document.lines)


def _name(document: Document) -> _Contradictions:
    stated = [key for key in ("name", "generateName") if f"metadata.{key}" in document.lines]
    if not stated and "metadata" in document.lines:
        yield "metadata.name", "is missing; write e.g. name: cache-1, or generateName: report-"
    elif len(stated) == 2:
        yield "metadata.generateName", "stands beside name; remove one of the two"


def _array(document: Document) -> _Contradictions:
    array, name = document.values.get("spec.array"), document.values.get("metadata.name")
    if not isinstance(array, ArrayMember):
        return
    wanted = member_name(array.name, array.index)
    if name != wanted:
        mend = "for a new array write e.g. array: 1-100"
        yield "spec.array", f"a member of this index is named {wanted}; {mend}"


def _probes(document: Document) -> _Contradictions:
    for probe, ways in (("ready", PROBE_WAYS), ("alive", PROBE_WAYS[:-1])):
        path = f"spec.run.{probe}"
        value = document.values.get(path)
        if not isinstance(value, Probe):
            continue
        stated = [way for way in ways if f"{path}.{way}" in document.lines]
        if len(stated) != 1:
            given = " and ".join(stated) or "none"
            yield path, f"states {given} of {', '.join(ways)}; write exactly one"
        if value.every_seconds < MIN_PROBE_SECONDS:
            yield f"{path}.every", "is too often; write at least 100ms"


def _after(document: Document) -> _Contradictions:
    if "spec.after" in document.values and document.values["spec.after"] == After():
        yield "spec.after", "is empty; write e.g. completed: [extract], or remove it"


def _expected(document: Document) -> _Contradictions:
    expected = document.values.get("spec.expectedDuration")
    within = document.values.get("spec.target.completionTime")
    if expected is not None and within is not None and expected > within:
        longer, deadline = format_duration(expected), format_duration(within)
        message = f"{longer} is longer than target.completionTime {deadline}"
        yield "spec.expectedDuration", f"{message}; lower it, or raise the target"


def _waiting(document: Document) -> _Contradictions:
    """A wait that leaves too little time for the target, as far as the manifest alone tells."""
    value = document.values.get
    waits, within, why = value("spec.waiting.within"), value("spec.target.completionTime"), ""
    rate, work = value("spec.target.rate"), value("spec.measure.progress.total")
    mend = "raise the target"
    if within is None and rate and work is not None:
        # The work is done at the target rate since the submission (ARQ 3.3).
        within = work / (rate * (1 - value("spec.tolerance", DEFAULT_TOLERANCE)))
        why = f" that progress.total {work:g} takes at target.rate less its tolerance"
        mend = "lower the target"
    if waits is None or within is None:
        return
    longer = format_duration(waits)
    allowed = f"{'the' if why else 'target.completionTime'} {format_duration(within)}{why}"
    expected = value("spec.expectedDuration", 0.0)
    if waits >= within:
        message = f"{longer} leaves no time to run within {allowed}"
        yield "spec.waiting.within", f"{message}; lower it, or {mend}"
    elif expected <= within < waits + expected:
        runs, most = format_duration(expected), format_duration(within - expected)
        message = f"{longer} and expectedDuration {runs} are longer than {allowed}"
        yield "spec.waiting.within", f"{message}; lower it to {most}, or {mend}"


def _target(document: Document, kind: WorkloadType) -> _Contradictions:
    allowed = TARGET_FIELDS[kind]
    states = f"a {kind} workload states {' or '.join(allowed)}"
    if "spec.target" not in document.lines:
        if kind is _SERVICE:
            yield "spec.target", f"is missing; {states}"
        return
    if not allowed:
        yield "spec.target", f"a {kind} workload has no target; remove it, or choose another type"
        return
    every = (*TARGET_FIELDS[WorkloadType.BATCH], *TARGET_FIELDS[_SERVICE])
    stated = [name for name in every if f"spec.target.{name}" in document.lines]
    for name in stated:
        if name not in allowed:
            yield f"spec.target.{name}", f"{states}; write that, or change the type"
    if not stated and "spec.target" in document.values:
        yield "spec.target", f"is empty; {states}"
    if kind is not _SERVICE and set(allowed) <= set(stated):
        yield f"spec.target.{stated[-1]}", f"{states}, not both; remove one"


def _by_type(document: Document, kind: WorkloadType) -> _Contradictions:
    servers = document.values.get("spec.scale.maxServers", 1)
    if kind is WorkloadType.SINGLE_NODE and servers != 1:
        mend = "write 1, or type: batch"
        yield "spec.scale.maxServers", f"{servers} servers for a {kind} workload; {mend}"
    mode = document.values.get("spec.profile.mode")
    best_effort = kind is WorkloadType.BEST_EFFORT
    if best_effort and mode is ProfileMode.COPY and not _is_measured(document):
        message = "'copy': nothing tells how a copy does; write measure.progress, or mode: none"
        yield "spec.profile.mode", message
    if "spec.measure.load" not in document.lines:
        return
    if kind is not _SERVICE:
        mend = "write progress, or type: latency-critical"
        yield "spec.measure.load", f"a {kind} workload serves no load; {mend}"
    elif not any(f"spec.measure.{way}" in document.lines for way in ("load.regex", *_READERS)):
        mend = "write its regex, e.g. 'rps=(?P<throughput>[0-9.]+)'"
        yield "spec.measure.load", f"nothing reads its report; {mend}"


def _http(document: Document) -> _Contradictions:
    http = "spec.measure.http"
    if http not in document.values:
        return
    metric = document.values.get(f"{http}.metric")
    if document.values.get(f"{http}.kind") is not MetricKind.HISTOGRAM:
        if f"{http}.percentile" in document.lines:
            message = "only a histogram has percentiles; write kind: histogram, or remove it"
            yield f"{http}.percentile", message
    elif metric is None:
        mend = "write e.g. metric: http_request_seconds"
        yield f"{http}.kind", f"histogram: it needs its metric; {mend}"
    elif metric.partition("{")[0].endswith("_bucket"):
        mend = "leave that out"
        yield f"{http}.metric", f"{quoted(metric)}: a histogram is named without _bucket; {mend}"


def _total(document: Document) -> _Contradictions:
    """A total determines the end only where something says how much is done."""
    progress = "spec.measure.progress"
    regex = document.values.get(f"{progress}.regex")
    if f"{progress}.total" not in document.lines or regex is None:
        return
    names = re.compile(regex).groupindex
    gauge = document.values.get(f"{progress}.kind") is NumberKind.GAUGE
    if "done" not in names and (names or gauge):
        mend = "name a group done, or remove it"
        yield f"{progress}.total", f"nothing says how much of it is done; {mend}"


def _start_size(document: Document) -> _Contradictions:
    run = document.values.get("spec.run")
    texts = [] if run is None else [*run.command, *run.env.keys(), *run.env.values()]
    size = sum(len(text.encode()) + 1 for text in texts)
    if size > MAX_START_BYTES:
        limit = f"the kernel starts at most {MAX_START_BYTES}, pass the rest in a file"
        yield "spec.run", f"command and env are {size} bytes; {limit}"


def schema_rules() -> list[Json]:
    """The same rules for the schema of ``spec``."""
    rules = [_when(kind, _target_schema(kind, allowed)) for kind, allowed in TARGET_FIELDS.items()]
    no_load = _nested("measure", load=False)
    rules += [_when(kind, no_load) for kind in TARGET_FIELDS if kind is not _SERVICE]
    unread: Json = {"load": {"not": {"required": ["regex"]}}}
    readers: Json = one_of(*_READERS)
    http: Json = {
        "if": {"required": ["kind"], "properties": {"kind": {"const": "histogram"}}},
        "then": {"required": ["metric"]},
        "else": {"properties": {"percentile": False}},
    }
    measure: Json = {
        "if": {"required": ["load"], "properties": unread},
        "then": {"anyOf": readers},
        "properties": {"http": http},
    }
    one_server = _nested("scale", maxServers={"maximum": 1})
    not_copied = _nested("profile", mode={"not": {"const": "copy"}})
    return [
        *rules,
        {"properties": {"measure": measure}},
        _when(WorkloadType.SINGLE_NODE, one_server),
        _when(WorkloadType.BEST_EFFORT, not_copied),
    ]


def one_of(*names: str) -> list[Json]:
    """Alternatives, each with one of these fields."""
    return [{"required": [name]} for name in names]


def _target_schema(kind: WorkloadType, allowed: tuple[str, ...]) -> dict[str, Json]:
    if not allowed:
        return {"properties": {"target": False}}
    either: Json = one_of(*allowed)
    names: dict[str, Json] = {"propertyNames": {"enum": [*allowed]}}
    if kind is _SERVICE:
        return {"required": ["target"], "properties": {"target": names | {"anyOf": either}}}
    return {"properties": {"target": names | {"oneOf": either}}}


def _nested(section: str, **fields: Json) -> dict[str, Json]:
    return {"properties": {section: {"properties": fields}}}


def _when(kind: WorkloadType, then: Json) -> Json:
    condition: Json = {"properties": {"type": {"const": str(kind)}}, "required": ["type"]}
    return {"if": condition, "then": then}
