"""Traces in CSV: jobs with their requests and durations, and servers.

A mapping states which columns hold what, and in what unit. Rows that can't be used are counted by
reason. ``trace_population`` makes jobs of what is read here; ``swf`` reads another format.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import astuple, dataclass, field, replace
from math import inf, isfinite, isnan, nan
from pathlib import Path
from typing import Annotated

from wharfinger.errors import InvalidInput
from wharfinger.files.tabular import TableLine, read_table
from wharfinger.manifest import kinds
from wharfinger.manifest.kinds import CPU, DIRECTORY, DURATION, MIN_MEMORY_BYTES, TIME
from wharfinger.manifest.sections import section
from wharfinger.model import units
from wharfinger.model.workload import WorkloadType
from wharfinger.simulator.scenario.scenario_kinds import FRACTION, NUMBER, TEXT, TEXTS, TYPE

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
    "{BE: best-effort}",
    TYPE.read,
    {"additionalProperties": dict(TYPE.schema)},
)


@dataclass(frozen=True, slots=True)
class TraceJob:
    """One row that can be used; seconds from the beginning of the window.

    Attributes:
        cpu_millicpus: That it requested, over all its servers.
        memory_bytes: On each of its servers.
        application: Program; empty = unknown.
        requested_seconds: That its user asked for; ``None`` = unknown.
    """

    name: str
    arrives_at: float
    duration_seconds: float
    cpu_millicpus: int
    memory_bytes: int
    type: WorkloadType = WorkloadType.BATCH
    application: str = ""
    servers: int = 1
    requested_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class TraceServer:
    """One server of a trace; an empty platform is unknown."""

    platform: str
    cpu_millicpus: int
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class Trace:
    """Jobs by arrival, servers in the order of the file, and unusable rows by reason."""

    jobs: tuple[TraceJob, ...]
    servers: tuple[TraceServer, ...]
    skipped: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Window:
    """Which part of a trace, and how fast it is played."""

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
    """All rows of the window, and the servers.

    Raises:
        InvalidInput: A file can't be read, lacks a column, or no row can be used.
    """
    directory, columns = Path(trace.directory), trace.columns
    if not trace.directory:
        raise InvalidInput("this trace's files are not part of wharfinger; name theirs: trace:DIR")
    path = directory / trace.jobs
    needed = [name for name in astuple(columns) if name]
    lines = read_table(path, needed, exact=False)
    jobs, skipped = usable(path, (_job(line, trace) for line in lines), trace.window)
    return Trace(jobs, tuple(_servers(trace, directory)), skipped)


def usable(
    path: Path, rows: Iterable[TraceJob | str], window: Window
) -> tuple[tuple[TraceJob, ...], dict[str, int]]:
    """The jobs of a window, by arrival on the run's clock, and the number of other rows by reason.

    ``rows`` are those of the file ``path``: jobs, or the reasons why they can't be used.
    ``InvalidInput`` if no row can be used.
    """
    skipped: Counter[str] = Counter()
    jobs = []
    for row in rows:
        if isinstance(row, str):
            skipped[row] += 1
        elif window.start_seconds <= row.arrives_at < window.end_seconds:
            jobs.append(row)
        else:
            skipped["outside of the window"] += 1
    if not jobs:
        raise InvalidInput(f"{path}: no row can be used: {tell(skipped) or 'there is none'}")
    jobs.sort(key=lambda job: job.arrives_at)
    scale, start = window.time_scale, window.start_seconds
    chosen = tuple(
        replace(
            job,
            arrives_at=(job.arrives_at - start) * scale * window.arrival_scale,
            duration_seconds=job.duration_seconds * scale,
            requested_seconds=job.requested_seconds and job.requested_seconds * scale,
        )
        for job in jobs
    )
    return chosen, dict(skipped)


def tell(skipped: Mapping[str, int]) -> str:
    """The reasons in one line, the most frequent first.

    >>> tell({"no end": 2, "no CPU": 30})
    '30 no CPU, 2 no end'
    """
    ordered = sorted(skipped.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{count} {reason}" for reason, count in ordered)


def _job(line: TableLine, trace: CsvTrace) -> TraceJob | str:
    columns, units_of = trace.columns, trace.units
    arrival = _number(line, columns.arrival)
    duration = _duration(line, columns, arrival)
    cpu = _number(line, columns.cpu)
    if not isfinite(arrival):
        return "without an arrival"
    if not isfinite(duration):
        return "without a start or an end"
    if duration <= 0:
        return "that took no time"
    if isnan(cpu) or round(cpu * units_of.millicpus) <= 0:
        return "that ask for no CPU"
    memory = _number(line, columns.memory)
    return TraceJob(
        line[columns.name] if columns.name else f"row-{line.number}",
        arrival * units_of.seconds,
        duration * units_of.seconds,
        round(cpu * units_of.millicpus),
        max(MIN_MEMORY_BYTES, 0 if isnan(memory) else round(memory * units_of.memory_bytes)),
        trace.types.get(line[columns.type] if columns.type else "", trace.default_type),
    )


def _duration(line: TableLine, columns: JobColumns, arrival: float) -> float:
    if columns.duration is not None:
        return _number(line, columns.duration)
    start = arrival if columns.start is None else _number(line, columns.start)
    return _number(line, columns.end) - start


def _number(line: TableLine, column: str | None) -> float:
    return nan if column is None else line.measured(column)


def _servers(trace: CsvTrace, directory: Path) -> Iterator[TraceServer]:
    columns = trace.node_columns
    if trace.nodes is None or columns is None:
        return
    needed = [columns.cpu, columns.memory, *columns.platform]
    for line in read_table(directory / trace.nodes, needed, exact=False):
        cpu = round(line.number_of(columns.cpu) * trace.units.millicpus)
        memory = round(line.number_of(columns.memory) * trace.units.memory_bytes)
        if cpu < 1:
            raise line.wrong(columns.cpu, "is no CPU", "leave the server out")
        if memory < MIN_MEMORY_BYTES:
            words = f"is less than {units.format_bytes(MIN_MEMORY_BYTES)}"
            raise line.wrong(columns.memory, words, "leave the server out")
        parts = (line[name].strip() for name in columns.platform)
        yield TraceServer("-".join(filter(None, parts)), cpu, memory)
