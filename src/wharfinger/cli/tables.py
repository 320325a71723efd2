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
    ("MET", lambda w: human.met(w["met"])),
    ("PRIORITY", _of("priority")),
    ("QUEUE", _of("queue")),
    ("SUBMITTED", _time("submitted_at")),
    ("LABELS", lambda w: ",".join(f"{k}={v}" for k, v in w["labels"].items()) or human.NONE),
    WORKLOADS[-1],
    ("MESSAGE", _of("message")),
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
    ("MESSAGE", _of("message")),
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
