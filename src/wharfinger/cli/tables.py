"""The columns of every list that ``get`` and its likes print."""

from typing import Any

from wharfinger.cli import human
from wharfinger.cli.output import Column


def _of(key: str) -> Any:
    return lambda item: human.NONE if item[key] in (None, "") else str(item[key])


def _number(key: str) -> Any:
    return lambda item: human.number(item[key])


def _duration(key: str) -> Any:
    return lambda item: human.duration(item[key])


def _size(key: str) -> Any:
    return lambda item: human.size(item[key])


def _time(key: str) -> Any:
    return lambda item: human.clock(item[key])


def _exit(workload: dict[str, Any]) -> str:
    if workload["signal"] is not None:
        return f"signal {workload['signal']}"
    return human.NONE if workload["exit_code"] is None else str(workload["exit_code"])


def _phase(workload: dict[str, Any]) -> str:
    return str(workload["phase"]) + (" (stopping)" if workload["stopping"] else "")


def _servers(workload: dict[str, Any]) -> str:
    return ",".join(workload["servers"]) or human.NONE


def _pressure(server: dict[str, Any], kind: str, nothing: float) -> str:
    """What its residents bear or exert together, of 100, where that says anything."""
    said = (p for p in server["pressure"] if p[kind] != nothing)
    return ", ".join(f"{p['name']} {p[kind]:.0f}" for p in said) or human.NONE


WORKLOADS: list[Column] = [
    ("NAME", _of("name")),
    ("TYPE", _of("type")),
    ("PHASE", _phase),
    ("CPUS", _number("cpus")),
    ("MEMORY", lambda w: human.size(w["memory_bytes"] or None)),
    ("SERVER", _servers),
    ("STARTS", _of("starts")),
    ("EXIT", _exit),
    ("WAIT", _duration("wait_seconds")),
    ("RUN", _duration("run_seconds")),
    ("REASON", _of("reason")),
]
WORKLOADS_WIDE: list[Column] = [
    *WORKLOADS[:-1],
    ("CPU TIME", _duration("cpu_seconds")),
    ("TARGET", lambda w: human.target(w["target"])),
    ("ACHIEVED", lambda w: human.achieved(w["achieved"])),
    ("OF TARGET", lambda w: human.percent(w["pace"])),
    ("PREDICTED", lambda w: human.percent((w["predicted"] or {}).get("mean"))),
    ("MET", lambda w: human.met(w["met"])),
    ("ADJUSTED", lambda w: f"{len(w['adjustments'])}x"),
    ("PRIORITY", _of("priority")),
    ("QUEUE", _of("queue")),
    ("SUBMITTED", _time("submitted_at")),
    ("LABELS", lambda w: ",".join(f"{k}={v}" for k, v in w["labels"].items()) or human.NONE),
    WORKLOADS[-1],
    ("MESSAGE", lambda item: human.words(item["message"]) or human.NONE),
]

_CONDITIONS: Column = (
    "CONDITIONS",
    lambda server: ",".join(c["name"] for c in server["conditions"]) or human.NONE,
)
SERVERS: list[Column] = [
    ("NAME", _of("name")),
    ("PLATFORM", _of("platform")),
    ("CPUS", _number("cpus")),
    ("ALLOCATED", _number("cpus_allocated")),
    ("MEMORY", _size("memory_bytes")),
    ("ALLOCATED", _size("memory_allocated_bytes")),
    ("WORKLOADS", _of("workloads")),
    ("ACCEPTING", lambda server: human.met(server["accepting"])),
    _CONDITIONS,
]
SERVERS_WIDE: list[Column] = [
    *SERVERS,
    ("COPIES", _of("copies")),
    ("UNSETTLED", lambda server: human.met(server["unsettled"])),
    ("TOLERATES", lambda server: _pressure(server, "tolerated", 100.0)),
    ("CAUSES", lambda server: _pressure(server, "caused", 0.0)),
    ("ZONE", _of("zone")),
    ("MESSAGE", lambda s: "; ".join(c["message"] for c in s["conditions"]) or human.NONE),
]

PLATFORMS: list[Column] = [
    ("NAME", _of("name")),
    ("ARCHITECTURE", _of("architecture")),
    ("CPUS", _number("cpus")),
    ("MEMORY", _size("memory_bytes")),
    ("SERVERS", _of("servers")),
]
PLATFORMS_WIDE: list[Column] = [*PLATFORMS, ("CPU MODEL", _of("cpu_model"))]

QUEUES: list[Column] = [
    ("NAME", _of("name")),
    ("LENGTH", _of("length")),
    ("FIRST", _of("first")),
    ("LONGEST WAIT", _duration("oldest_wait_seconds")),
]

EVENTS: list[Column] = [
    ("SEQUENCE", _of("sequence")),
    ("TIME", _time("logged_at")),
    ("NAME", _of("name")),
    ("KIND", _of("kind")),
    ("MESSAGE", lambda item: human.words(item["message"]) or human.NONE),
]

CANDIDATES: list[Column] = [
    ("SERVER", _of("name")),
    ("SCORE", _number("score")),
    ("VERDICT", _of("reason")),
]


def columns(kind: str, output: str) -> list[Column]:
    """The columns of one kind, the wider ones where they are asked for."""
    normal, wide = {
        "workloads": (WORKLOADS, WORKLOADS_WIDE),
        "servers": (SERVERS, SERVERS_WIDE),
        "platforms": (PLATFORMS, PLATFORMS_WIDE),
        "queues": (QUEUES, QUEUES),
        "events": (EVENTS, EVENTS),
    }[kind]
    return wide if output == "wide" else normal
