"""The rules between fields, in words for ``load_manifests`` and in JSON Schema's terms.

``sections`` has read the fields; here they are held against each other, as far as those that
a rule compares are right by themselves. Each rule that JSON Schema can say stands in
``schema_rules`` too.
"""

import re
from dataclasses import replace

from wharfinger.manifest.kinds import Json
from wharfinger.manifest.sections import Document
from wharfinger.model.units import quoted
from wharfinger.model.workload import (
    MetricKind,
    NumberKind,
    ProfileMode,
    Run,
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

MAX_START_BYTES = 1024**2
"""Of arguments and environment together; the kernel takes twice that at the usual stack size."""


def check_rules(document: Document) -> None:
    """Hold a document's fields against each other; contradictions go to its problems."""
    kind = document.values.get("spec.type")
    if isinstance(kind, WorkloadType):
        for rule in (_target, _scale, _profile, _load):
            rule(document, kind)
    for check in (_histogram, _total):
        check(document)
    _start_size(document)


def complete(workload: Workload, document: Document) -> Workload:
    """Fill in the defaults that hang on other things than the field itself."""
    if "spec.run.workingDir" not in document.lines:
        run = replace(workload.run, working_directory=document.working_directory)
        workload = replace(workload, run=run)
    if workload.best_effort and "spec.profile.mode" not in document.lines:
        workload = replace(workload, profile=replace(workload.profile, mode=ProfileMode.NONE))
    return workload


def _target(document: Document, kind: WorkloadType) -> None:
    allowed = TARGET_FIELDS[kind]
    if "spec.target" not in document.lines:
        if kind is WorkloadType.LATENCY_CRITICAL:
            document.wrong("spec.target", f"is missing; a {kind} workload states {_or(allowed)}")
        return
    if not allowed:
        mend = "remove it, or choose another type"
        document.wrong("spec.target", f"a {kind} workload has no target; {mend}")
        return
    states = f"a {kind} workload states {_or(allowed)}"
    given = [name for name in _all_target_fields() if f"spec.target.{name}" in document.lines]
    for name in given:
        if name not in allowed:
            document.wrong(f"spec.target.{name}", f"{states}; write that, or change the type")
    if not given and "spec.target" in document.values:
        document.wrong("spec.target", f"is empty; {states}")
    if kind is not WorkloadType.LATENCY_CRITICAL and set(allowed) <= set(given):
        document.wrong(f"spec.target.{given[-1]}", f"{states}, not both; remove one")


def _scale(document: Document, kind: WorkloadType) -> None:
    servers = document.values.get("spec.scale.maxServers", 1)
    if kind is WorkloadType.SINGLE_NODE and servers != 1:
        message = f"{servers} servers for a {kind} workload; write 1, or type: batch"
        document.wrong("spec.scale.maxServers", message)


def _profile(document: Document, kind: WorkloadType) -> None:
    mode = document.values.get("spec.profile.mode")
    if kind is WorkloadType.BEST_EFFORT and mode is ProfileMode.COPY:
        message = f"'copy': a {kind} workload is never copied; write none or live"
        document.wrong("spec.profile.mode", message)


def _load(document: Document, kind: WorkloadType) -> None:
    if "spec.measure.load" not in document.lines:
        return
    ways = ("load.regex", "progress", "http", "command")
    if kind is not WorkloadType.LATENCY_CRITICAL:
        message = f"a {kind} workload serves no load; write progress, or type: latency-critical"
        document.wrong("spec.measure.load", message)
    elif not any(f"spec.measure.{way}" in document.lines for way in ways):
        message = "nothing reads its report; write its regex, e.g. 'rps=(?P<throughput>[0-9.]+)'"
        document.wrong("spec.measure.load", message)


def _histogram(document: Document) -> None:
    if "spec.measure.http" not in document.values:
        return
    kind = document.values.get("spec.measure.http.kind")
    metric = document.values.get("spec.measure.http.metric")
    if kind is MetricKind.HISTOGRAM and metric is None:
        message = "histogram: it needs its metric; write e.g. metric: http_request_seconds"
        document.wrong("spec.measure.http.kind", message)
    elif kind is MetricKind.HISTOGRAM and str(metric).partition("{")[0].endswith("_bucket"):
        message = f"{quoted(str(metric))}: a histogram is named without _bucket; leave that out"
        document.wrong("spec.measure.http.metric", message)
    if kind is not MetricKind.HISTOGRAM and "spec.measure.http.percentile" in document.lines:
        message = "only a histogram has percentiles; write kind: histogram, or remove it"
        document.wrong("spec.measure.http.percentile", message)


def _total(document: Document) -> None:
    """A total says when all is done only where something says how much is."""
    regex = document.values.get("spec.measure.progress.regex")
    if "spec.measure.progress.total" not in document.lines or not isinstance(regex, str):
        return
    names = re.compile(regex).groupindex
    gauge = document.values.get("spec.measure.progress.kind") is NumberKind.GAUGE
    if "done" not in names and (names or gauge):
        message = "nothing says how much of it is done; name a group done, or remove it"
        document.wrong("spec.measure.progress.total", message)


def _start_size(document: Document) -> None:
    run = document.values.get("spec.run")
    if not isinstance(run, Run):
        return
    texts = [*run.command, *run.env.keys(), *run.env.values()]
    size = sum(len(text.encode()) + 1 for text in texts)
    if size > MAX_START_BYTES:
        message = f"command and env are {size} bytes; the kernel starts at most {MAX_START_BYTES}"
        document.wrong("spec.run", f"{message}, pass the rest in a file")


def _or(names: tuple[str, ...]) -> str:
    return " or ".join(names)


def _all_target_fields() -> tuple[str, ...]:
    return tuple(name for names in (TARGET_FIELDS[kind] for kind in _TARGETED) for name in names)


_TARGETED = (WorkloadType.BATCH, WorkloadType.LATENCY_CRITICAL)


def schema_rules() -> list[Json]:
    """The same rules for the schema of ``spec``."""
    rules: list[Json] = []
    for kind, allowed in TARGET_FIELDS.items():
        rules.append(_when(kind, _target_schema(kind, allowed)))
        if kind is not WorkloadType.LATENCY_CRITICAL:
            rules.append(_when(kind, _nested("measure", {"properties": {"load": False}})))
    one_server: dict[str, Json] = {"properties": {"maxServers": {"maximum": 1}}}
    not_copied: dict[str, Json] = {"properties": {"mode": {"not": {"const": "copy"}}}}
    rules += [_nested("measure", _LOAD_IS_READ), _nested("measure", _nested("http", _HISTOGRAM))]
    rules.append(_when(WorkloadType.SINGLE_NODE, _nested("scale", one_server)))
    rules.append(_when(WorkloadType.BEST_EFFORT, _nested("profile", not_copied)))
    return rules


_LOAD_IS_READ: dict[str, Json] = {
    "if": {"required": ["load"], "properties": {"load": {"not": {"required": ["regex"]}}}},
    "then": {"anyOf": [{"required": [way]} for way in ("progress", "http", "command")]},
}
_HISTOGRAM: dict[str, Json] = {
    "if": {"required": ["kind"], "properties": {"kind": {"const": "histogram"}}},
    "then": {"required": ["metric"]},
    "else": {"properties": {"percentile": False}},
}


def _target_schema(kind: WorkloadType, allowed: tuple[str, ...]) -> dict[str, Json]:
    if not allowed:
        return {"properties": {"target": False}}
    either: Json = [{"required": [name]} for name in allowed]
    both_allowed = kind is WorkloadType.LATENCY_CRITICAL
    target: dict[str, Json] = {
        "propertyNames": {"enum": [*allowed]},
        "anyOf" if both_allowed else "oneOf": either,
    }
    schema = _nested("target", target)
    return {**schema, "required": ["target"]} if both_allowed else schema


def _nested(name: str, schema: dict[str, Json]) -> dict[str, Json]:
    return {"properties": {name: schema}}


def _when(kind: WorkloadType, then: dict[str, Json]) -> Json:
    condition: dict[str, Json] = {
        "properties": {"type": {"const": str(kind)}},
        "required": ["type"],
    }
    return {"if": condition, "then": then}
