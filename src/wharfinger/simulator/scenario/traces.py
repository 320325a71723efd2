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

from wharfinger.errors import InvalidInput
from wharfinger.files.tabular import TableLine, read_table
from wharfinger.model.units import format_bytes
from wharfinger.model.workload import WorkloadType

MIB = 1024**2


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
    """Which part of a trace, and how fast it goes by.

    Attributes:
        start_seconds: Of the trace's own clock: who came before is left out.
        end_seconds: Who came then or later is left out.
        time_scale: All times are multiplied by it: 0.1 makes a day of ten.
        arrival_scale: Times between arrivals once more: 0.5 makes them come twice as often.
        sample: Share of the servers and of the workloads that is taken, drawn at random.
    """

    start_seconds: float = 0.0
    end_seconds: float = inf
    time_scale: float = 1.0
    arrival_scale: float = 1.0
    sample: float = 1.0

    def __post_init__(self) -> None:
        if self.start_seconds >= self.end_seconds:
            raise InvalidInput("from is not before until; write an earlier one")


@dataclass(frozen=True, slots=True)
class JobColumns:
    """Columns of the file of workloads; of ``end`` and ``duration`` one is given.

    Attributes:
        arrival: When it was handed in.
        cpu: CPU that it asked for.
        name: What it is called; ``None`` = numbered.
        start: When it began to run, empty where it never did; ``None`` = at its arrival.
        end: When it ended.
        duration: How long it ran.
        memory: That it asked for; ``None`` = 1 MiB.
        type: What kind of workload it is, see ``CsvTrace.types``; ``None`` = all are alike.
    """

    arrival: str
    cpu: str
    name: str | None = None
    start: str | None = None
    end: str | None = None
    duration: str | None = None
    memory: str | None = None
    type: str | None = None

    def __post_init__(self) -> None:
        if (self.end is None) == (self.duration is None):
            raise InvalidInput("write either the column of the end, or that of the duration")


@dataclass(frozen=True, slots=True)
class NodeColumns:
    """Columns of the file of servers.

    Attributes:
        cpu: CPU of one.
        memory: Of one.
        platform: Whose values together name its platform.
    """

    cpu: str
    memory: str
    platform: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Units:
    """What 1 means in a trace's columns.

    Attributes:
        seconds: Of time.
        millicpus: Of CPU.
        memory_bytes: Of memory.
    """

    seconds: float = 1.0
    millicpus: int = 1000
    memory_bytes: int = 1


@dataclass(frozen=True, slots=True)
class CsvTrace:
    """A trace in CSV.

    Attributes:
        jobs: File of workloads.
        columns: Of that.
        directory: Where its files are; empty = whoever runs it must name one (``trace:DIR``).
        nodes: File of servers; ``None`` = the scenario lists them.
        node_columns: Of that.
        units: Of both files.
        types: Kind of workload by what its column says.
        default_type: Of rows whose column says something else.
        window: Which part.
    """

    jobs: str
    columns: JobColumns
    directory: str = ""
    nodes: str | None = None
    node_columns: NodeColumns | None = None
    units: Units = field(default_factory=Units)
    types: Mapping[str, WorkloadType] = field(default_factory=dict)
    default_type: WorkloadType = WorkloadType.BATCH
    window: Window = field(default_factory=Window)

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
            columns.memory, f"is less than {format_bytes(MIB)}", "leave the server out"
        )
    return TraceServer(
        "-".join(text for text in (line[name].strip() for name in columns.platform) if text),
        cpu,
        memory,
    )
