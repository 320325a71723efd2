"""Traces in CSV: who came, asked for what, and ran for how long; and the servers there were.

A trace names its columns as it likes, so a mapping says which of them hold what, and in what unit.
Rows that can't be used are counted by the reason, and said: none is dropped in silence.
``trace_population`` makes jobs of what is read here; ``swf`` reads another format to the same.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import inf, isfinite, nan
from pathlib import Path
from typing import Annotated

from wharfinger.errors import InvalidInput
from wharfinger.files.tabular import TableLine, read_table
from wharfinger.manifest import kinds
from wharfinger.manifest.kinds import CPU, DIRECTORY, DURATION, TIME
from wharfinger.manifest.sections import section
from wharfinger.model import units
from wharfinger.model.workload import WorkloadType
from wharfinger.simulator.scenario.scenario_kinds import (
    FRACTION,
    NUMBER,
    TEXT,
    TEXTS,
    TYPE,
)

MIB = 1024**2
_BYTES = kinds.quantity(
    "bytes",
    units.parse_bytes,
    units.format_bytes,
    units.BYTES_PATTERN,
    "1Mi",
    bare={"type": "integer", "minimum": 1, "maximum": units.MAX_BYTES},
)
_TYPES = kinds.mapping(
    "type by text",
    lambda node: TYPE.read(node, ""),
    {"additionalProperties": dict(TYPE.schema)},
    "{BE: best-effort}",
)


@dataclass(frozen=True, slots=True)
class TraceJob:
    """One row that can be used.

    Attributes:
        name: As the trace has it.
        arrives_at: Seconds from the beginning of the window.
        duration_seconds: That it ran with what it asked for.
        cpu_millicpus: That it asked for, over all its servers.
        memory_bytes: On each of its servers.
        type: Of workload.
        application: Of which program it is; empty = of any that asks for as much.
        servers: It needs at least so many at once.
    """

    name: str
    arrives_at: float
    duration_seconds: float
    cpu_millicpus: int
    memory_bytes: int
    type: WorkloadType = WorkloadType.BATCH
    application: str = ""
    servers: int = 1


@dataclass(frozen=True, slots=True)
class TraceServer:
    """One server of a trace.

    Attributes:
        platform: As the trace calls its kind; empty = it does not.
        cpu_millicpus: CPU that it has; ``memory_bytes`` likewise.
    """

    platform: str
    cpu_millicpus: int
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class Trace:
    """What was read of a trace.

    Attributes:
        jobs: By arrival.
        servers: In the order of the file; empty = it tells of none.
        skipped: Rows that could not be used, by reason.
    """

    jobs: tuple[TraceJob, ...]
    servers: tuple[TraceServer, ...]
    skipped: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Window:
    """Which part of a trace, and how fast it goes by."""

    start_seconds: Annotated[float, TIME("Earlier workloads are left out.", name="from")] = 0.0
    end_seconds: Annotated[
        float, DURATION("Workloads from then on are too.", name="until", default="its end")
    ] = inf
    time_scale: Annotated[float, NUMBER("All times are multiplied by it.")] = 1.0
    arrival_scale: Annotated[float, NUMBER("Times between arrivals once more.")] = 1.0
    sample: Annotated[float, FRACTION("Share of servers and workloads that is drawn.")] = 1.0

    def __post_init__(self) -> None:
        if self.start_seconds >= self.end_seconds:
            raise InvalidInput("from is not before until; write an earlier one")


WINDOW = section(Window, "Which part of the trace.")


@dataclass(frozen=True, slots=True)
class JobColumns:
    """Columns of the file of workloads; of ``end`` and ``duration`` one is given."""

    arrival: Annotated[str, TEXT("When it was submitted.")]
    cpu: Annotated[str, TEXT("That it asked for.")]
    name: Annotated[str | None, TEXT("What it is called.")] = None
    start: Annotated[
        str | None, TEXT("When it began; empty = it never ran.", default="the arrival")
    ] = None
    end: Annotated[str | None, TEXT("When it ended.")] = None
    duration: Annotated[str | None, TEXT("Instead of the end.")] = None
    memory: Annotated[str | None, TEXT("That it asked for.")] = None
    type: Annotated[str | None, TEXT("See `types`.")] = None

    def __post_init__(self) -> None:
        if (self.end is None) == (self.duration is None):
            raise InvalidInput("write either the column of the end, or that of the duration")


@dataclass(frozen=True, slots=True)
class NodeColumns:
    """Columns of the file of servers."""

    cpu: Annotated[str, TEXT("Of one.")]
    memory: Annotated[str, TEXT("Of one.")]
    platform: Annotated[
        tuple[str, ...], TEXTS("Together they name its platform.", default="its size does")
    ] = ()


@dataclass(frozen=True, slots=True)
class Units:
    """What 1 means in a trace's columns."""

    seconds: Annotated[float, DURATION("What 1 means.", name="time")] = 1.0
    millicpus: Annotated[int, CPU("What 1 means.", name="cpu")] = 1000
    memory_bytes: Annotated[int, _BYTES("What 1 means.")] = 1


@dataclass(frozen=True, slots=True)
class CsvTrace:
    """A trace in CSV."""

    jobs: Annotated[str, TEXT("File of workloads.")]
    columns: Annotated[JobColumns, section(JobColumns, "What they are called there.")]
    directory: Annotated[
        str, DIRECTORY("Of its files.", default="where the scenario lies, or `trace:DIR`")
    ] = ""
    nodes: Annotated[str | None, TEXT("File of servers.")] = None
    node_columns: Annotated[
        NodeColumns | None, section(NodeColumns, "What they are called there.")
    ] = None
    units: Annotated[Units, section(Units, "Of both files.")] = field(default_factory=Units)
    types: Annotated[
        Mapping[str, WorkloadType],
        _TYPES("Kind of workload by what the column says.", default="none"),
    ] = field(default_factory=dict)
    default_type: Annotated[
        WorkloadType, TYPE("Where it says something else.", name="otherType")
    ] = WorkloadType.BATCH
    window: Annotated[Window, WINDOW] = field(default_factory=Window)

    def __post_init__(self) -> None:
        if (self.nodes is None) != (self.node_columns is None):
            raise InvalidInput("a file of nodes needs its nodeColumns, and they a file")
        if WorkloadType.LATENCY_CRITICAL in (self.default_type, *self.types.values()):
            raise InvalidInput("a trace tells no load, so it has no services; write batch instead")


def read_csv_trace(trace: CsvTrace) -> Trace:
    """All rows of the window.

    Raises:
        InvalidInput: A file can't be read, lacks a column, or no row can be used.
    """
    directory = Path(trace.directory)
    if not trace.directory:
        raise InvalidInput("this trace's files are not part of wharfinger; name theirs: trace:DIR")
    skipped: Counter[str] = Counter()
    path = directory / trace.jobs
    needed = [name for name in _job_columns(trace.columns) if name]
    rows = (_job(line, trace, skipped) for line in read_table(path, needed, exact=False))
    jobs = in_window((job for job in rows if job), trace.window, skipped)
    if not jobs:
        raise InvalidInput(f"{path}: no row can be used: {tell(skipped) or 'there is none'}")
    return Trace(jobs, _servers(trace, directory), dict(skipped))


def in_window(
    jobs: Iterable[TraceJob], window: Window, skipped: Counter[str]
) -> tuple[TraceJob, ...]:
    """Those that came within it, by arrival, on the run's clock."""
    chosen = []
    for job in sorted(jobs, key=lambda job: job.arrives_at):
        if not window.start_seconds <= job.arrives_at < window.end_seconds:
            skipped["outside of the window"] += 1
            continue
        since = job.arrives_at - window.start_seconds
        chosen.append((since * window.time_scale * window.arrival_scale, job))
    return tuple(
        TraceJob(
            job.name,
            at,
            job.duration_seconds * window.time_scale,
            job.cpu_millicpus,
            job.memory_bytes,
            job.type,
            job.application,
            job.servers,
        )
        for at, job in chosen
    )


def tell(skipped: Mapping[str, int]) -> str:
    """The reasons in one line, the most frequent first.

    >>> tell({"no end": 2, "no CPU": 30})
    '30 no CPU, 2 no end'
    """
    ordered = sorted(skipped.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{count} {reason}" for reason, count in ordered)


def _job_columns(columns: JobColumns) -> tuple[str | None, ...]:
    return (
        columns.arrival,
        columns.cpu,
        columns.name,
        columns.start,
        columns.end,
        columns.duration,
        columns.memory,
        columns.type,
    )


def _job(line: TableLine, trace: CsvTrace, skipped: Counter[str]) -> TraceJob | None:
    """One row; ``None`` where it can't be used, whose reason is counted."""
    columns, units = trace.columns, trace.units
    arrival = _number(line, columns.arrival)
    cpu = round(_number(line, columns.cpu) * units.millicpus) if _has(line, columns.cpu) else 0
    duration = _duration(line, columns, arrival)
    reason = _unusable(arrival, cpu, duration)
    if reason:
        skipped[reason] += 1
        return None
    memory = _number(line, columns.memory) if _has(line, columns.memory) else 0.0
    return TraceJob(
        line[columns.name] if columns.name else f"row-{line.number}",
        arrival * units.seconds,
        duration * units.seconds,
        cpu,
        max(MIB, round(memory * units.memory_bytes)),
        trace.types.get(line[columns.type], trace.default_type)
        if columns.type
        else trace.default_type,
    )


def _unusable(arrival: float, cpu: int, duration: float) -> str:
    """Why a row can't be used; empty if it can. What is not known is NaN."""
    if not isfinite(arrival):
        return "without an arrival"
    if not isfinite(duration):
        return "without a start or an end"
    if duration <= 0:
        return "that took no time"
    return "that ask for no CPU" if cpu <= 0 else ""


def _duration(line: TableLine, columns: JobColumns, arrival: float) -> float:
    if columns.duration is not None:
        return _number(line, columns.duration)
    start = arrival if columns.start is None else _number(line, columns.start)
    return _number(line, columns.end) - start if _has(line, columns.end) else nan


def _has(line: TableLine, column: str | None) -> bool:
    return column is not None and line[column].strip().lower() not in ("", "nan")


def _number(line: TableLine, column: str | None) -> float:
    """A number; NaN where there is none."""
    return nan if column is None else line.measured(column)


def _servers(trace: CsvTrace, directory: Path) -> tuple[TraceServer, ...]:
    columns = trace.node_columns
    if trace.nodes is None or columns is None:
        return ()
    path = directory / trace.nodes
    needed = [columns.cpu, columns.memory, *columns.platform]
    return tuple(
        _server(line, columns, trace.units) for line in read_table(path, needed, exact=False)
    )


def _server(line: TableLine, columns: NodeColumns, units: Units) -> TraceServer:
    cpu = round(line.number_of(columns.cpu) * units.millicpus)
    memory = round(line.number_of(columns.memory) * units.memory_bytes)
    if cpu < 1:
        raise line.wrong(columns.cpu, "is no CPU", "leave the server out")
    if memory < MIB:
        raise line.wrong(
            columns.memory, f"is less than {units.format_bytes(MIB)}", "leave the server out"
        )
    return TraceServer(
        "-".join(text for text in (line[name].strip() for name in columns.platform) if text),
        cpu,
        memory,
    )
