"""The columns of every list that ``get`` and its likes print."""

from collections.abc import Callable

from wharfinger.cli import format as fmt
from wharfinger.cli import targets
from wharfinger.cli.output import Column, Record, column
from wharfinger.cli.statuses import exit_text, moment, server_status, workload_status
from wharfinger.cli.workload_text import allocated


def columns(kind: str, output: str) -> list[Column]:
    """The columns of one kind, the wider ones where they are asked for."""
    return (_WIDE if output == "wide" and kind in _WIDE else _NORMAL)[kind]


def state_of(kind: str) -> Callable[[Record], object]:
    """By which a record has changed: what its table shows, but for what only time changes."""
    shown = [cell for header, cell in columns(kind, "table") if header not in _TIMED]
    return lambda record: [cell(record) for cell in shown]


def _pressure(server: Record, kind: str, nothing: float) -> str:
    """What its residents tolerate or cause together, of 100, where that says anything."""
    scores = (p for p in server["pressure"] if p[kind] != nothing)
    return ", ".join(f"{p['name']} {p[kind]:.0f}" for p in scores) or fmt.NONE


def _quality(queue: Record) -> str:
    low, high = queue["quality_low"], queue["quality_high"]
    return fmt.NONE if low is None else f"{low:.0%} to {high:.0%}"


def _event(event: Record) -> str:
    data = event["data"]
    match "" if data.get("decision") else event["kind"]:
        case "WorkloadFinished" if data["signal"] is not None:
            return f"{data['reason']}, signal {data['signal']}"
        case "WorkloadFinished":
            return f"{data['reason']}, exit status {data['exit_code']}"
        case "ManagerStarted":
            return ", ".join(data[key] for key in ("version", "policy", "admission", "engine"))
        case "WorkloadQueued":
            return f"in queue {data['queue']}"
        case "AllocationResized":
            return ", ".join(map(_placement, data["placements"]))
        case "ServerMeasured":
            silent = sum(bool(sample["silent"]) for sample in data["samples"])
            return f"{len(data['samples'])} measured, {silent} of them without a signal"
        case "ProfilingFinished":
            return _measurements(data["measurements"])
        case "WorkloadClassified":
            made = data["classification"]
            by = f"by {made['estimator']} {made['version']}"
            if not made["measured"]:
                return f"{by}, a cold start: nothing of its own was measured"
            return f"{by}, from {made['measured']} measured entries"
    return fmt.text(fmt.words(event["message"]))


def _placement(placement: Record) -> str:
    allocation = placement["allocation"]
    ceiling, given = allocation.get("ceiling_millicpus"), allocation["cpu_millicpus"] / 1000
    most = None if ceiling is None else ceiling / 1000
    cpus = allocated(given, most, best_effort=allocation["best_effort"])
    return f"{placement['server']}: {cpus}, {fmt.size(allocation['memory_bytes'])}"


def _measurements(measurements: Record) -> str:
    cpus = sorted({int(cpu) for row in measurements["performance"].values() for cpu in row})
    under = ", ".join(fmt.number(cpu / 1000) for cpu in cpus) or "no allocation"
    sources = {**measurements["tolerated"], **measurements["caused"]}
    silent = ", ".join(measurements["silent"])
    silent = silent and f"; not measured: {silent}"
    runs = f"{measurements['runs']} run{'' if measurements['runs'] == 1 else 's'}"
    return (
        f"{runs} in {measurements['seconds']:.0f} s: performance under {under} CPU; "
        f"{', '.join(sources) or 'no source of interference'}{silent}"
    )


_TIMED = ("WAITED", "RAN", "LONGEST WAIT", "EXPECTED WAIT", "LOAD")
_NORMAL: dict[str, list[Column]] = {
    "workloads": [
        *map(column, ("NAME", "TYPE")),
        ("STATUS", workload_status),
        column("READY", form=fmt.yes_no),
        column("RESTARTS"),
        column("CPUS", form=fmt.number),
        column("MEMORY", "memory_bytes", lambda size_bytes: fmt.size(size_bytes or None)),
        column("SERVER", "servers"),
        column("RUN"),
        column("WAITED", "wait_seconds", fmt.duration),
        column("RAN", "run_seconds", fmt.duration),
    ],
    "servers": [
        *map(column, ("NAME", "PLATFORM")),
        column("CPUS", form=fmt.number),
        column("ALLOCATED", "cpus_allocated", fmt.number),
        column("OTHERS", "cpus_others", fmt.number),
        column("MEMORY", "memory_bytes", fmt.size),
        column("ALLOCATED", "memory_allocated_bytes", fmt.size),
        column("OTHERS", "memory_others_bytes", fmt.size),
        column("WORKLOADS"),
        ("STATUS", server_status),
        column("CONDITIONS", form=lambda conditions: fmt.text([c["name"] for c in conditions])),
    ],
    "platforms": [
        *map(column, ("NAME", "ARCHITECTURE")),
        column("CPUS", form=fmt.number),
        column("MEMORY", "memory_bytes", fmt.size),
        column("SERVERS"),
    ],
    "queues": [
        *map(column, ("NAME", "LENGTH", "FIRST")),
        column("LONGEST WAIT", "oldest_wait_seconds", fmt.duration),
        column("SERVERS"),
        column("FREE", "free_servers"),
        column("EXPECTED WAIT", "expected_wait_seconds", fmt.duration),
        column("LOAD", "load_factor", fmt.percent),
    ],
    "events": [
        column("SEQUENCE"),
        column("TIME", "logged_at", fmt.clock),
        *map(column, ("NAME", "KIND")),
        ("MESSAGE", _event),
    ],
}
_WIDE: dict[str, list[Column]] = {
    "queues": [
        *_NORMAL["queues"],
        column("AT LEAST", "expected_wait_low_seconds", fmt.duration),
        column("AT MOST", "expected_wait_high_seconds", fmt.duration),
        column("OVER SLACK", "over_slack_probability", fmt.percent),
        ("QUALITY", _quality),
    ],
    "workloads": [
        *_NORMAL["workloads"],
        column("STARTS"),
        ("EXIT", lambda w: exit_text(w).removeprefix("exit ")),
        ("NEXT", lambda w: moment(w["due_at"]) if w["due_at"] else fmt.NONE),
        column("CPU TIME", "cpu_seconds", fmt.duration),
        column("TARGET", form=targets.target),
        column("ACHIEVED", form=targets.achieved),
        column("OF TARGET", "normalized_performance", fmt.percent),
        column("PREDICTED", form=lambda made: fmt.percent(made["mean"])),
        column("MET", form=fmt.yes_no),
        column("ADJUSTED", "adjustments", lambda adjustments: f"{len(adjustments)}x"),
        *map(column, ("PRIORITY", "QUEUE")),
        column("SUBMITTED", "submitted_at", fmt.clock),
        column("OWNER", form=fmt.text),
        column("LABELS", form=lambda labels: fmt.text([f"{k}={v}" for k, v in labels.items()])),
        *map(column, ("PHASE", "REASON")),
        column("MESSAGE", form=lambda message: fmt.text(fmt.words(message))),
    ],
    "servers": [
        *_NORMAL["servers"],
        column("PROFILING", "copies"),
        ("CORDON", lambda server: fmt.text(server["cordon_reason"])),
        column("UNSETTLED", form=fmt.yes_no),
        ("TOLERATES", lambda server: _pressure(server, "tolerated", 100.0)),
        ("CAUSES", lambda server: _pressure(server, "caused", 0.0)),
        column("ZONE"),
        ("MESSAGE", lambda s: "; ".join(c["message"] for c in s["conditions"]) or fmt.NONE),
    ],
    "platforms": [*_NORMAL["platforms"], column("CPU MODEL")],
}
