"""The rules between fields, in words for ``load_manifests`` and in JSON Schema's terms.

``sections`` has read the fields; a rule compares those that are right by themselves. Each rule that
JSON Schema can say stands in ``schema_rules`` too.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import TypeAlias

from wharfinger.manifest.kinds import Json
from wharfinger.manifest.sections import Document
from wharfinger.model.units import quoted
from wharfinger.model.workload import MetricKind, NumberKind, ProfileMode, Workload, WorkloadType

TARGET_FIELDS = {
    WorkloadType.SINGLE_NODE: ("rate", "completionTime"),
    WorkloadType.BATCH: ("completionTime", "rate"),
    WorkloadType.LATENCY_CRITICAL: ("throughput", "latency"),
    WorkloadType.BEST_EFFORT: (),
}
"""How each type states its target (Quasar 3.1)."""

MAX_START_BYTES = 1024**2
"""Of arguments and environment together; the kernel takes twice that at the usual stack size."""

_SERVICE = WorkloadType.LATENCY_CRITICAL
_READERS = ("progress", "http", "command")
_Contradictions: TypeAlias = Iterator[tuple[str, str]]
"""Fields that contradict others, and what to say of them."""


def check_rules(document: Document) -> None:
    """Check a document's fields against each other; contradictions go to its problems."""
    kind = document.values.get("spec.type")
    by_type = [] if kind is None else [*_target(document, kind), *_by_type(document, kind)]
    for path, message in (*by_type, *_http(document), *_total(document), *_start_size(document)):
        document.wrong(path, message)


def complete(workload: Workload, document: Document) -> Workload:
    """A workload with the defaults that depend on more than the field itself."""
    if "spec.run.workingDir" not in document.lines:
        run = replace(workload.run, working_directory=document.working_directory)
        workload = replace(workload, run=run)
    if workload.best_effort and "spec.profile.mode" not in document.lines:
        workload = replace(workload, profile=replace(workload.profile, mode=ProfileMode.NONE))
    return workload


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
    if kind is WorkloadType.BEST_EFFORT and mode is ProfileMode.COPY:
        message = f"'copy': a {kind} workload is never copied; write none or live"
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
    readers: Json = [{"required": [way]} for way in _READERS]
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


def _target_schema(kind: WorkloadType, allowed: tuple[str, ...]) -> dict[str, Json]:
    if not allowed:
        return {"properties": {"target": False}}
    either: Json = [{"required": [name]} for name in allowed]
    names: dict[str, Json] = {"propertyNames": {"enum": [*allowed]}}
    if kind is _SERVICE:
        return {"required": ["target"], "properties": {"target": names | {"anyOf": either}}}
    return {"properties": {"target": names | {"oneOf": either}}}


def _nested(section: str, **fields: Json) -> dict[str, Json]:
    return {"properties": {section: {"properties": fields}}}


def _when(kind: WorkloadType, then: Json) -> Json:
    condition: Json = {"properties": {"type": {"const": str(kind)}}, "required": ["type"]}
    return {"if": condition, "then": then}
