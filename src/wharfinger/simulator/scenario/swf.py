"""The Standard Workload Format of the Parallel Workloads Archive, version 2.2.

Source: Chapin et al., "Benchmarks and Standards for the Evaluation of Parallel Job Schedulers"
(JSSPP 1999), and https://www.cs.huji.ac.il/labs/parallel/workload/swf.html. A line is one job,
18 numbers, -1 = unknown; what begins with ``;`` are comments, the header's ``; Name: value``.
A job of P processors becomes a workload of P CPUs, and the time that its user asked for becomes its
expected duration. A file is read line by line, also where it is packed (``.gz``); what is outside
of the window is not kept.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from math import isfinite, nan
from pathlib import Path
from typing import Annotated

from wharfinger.errors import InvalidInput
from wharfinger.files.tabular import text_lines
from wharfinger.manifest.kinds import FILE, MEMORY, MIN_MEMORY_BYTES, choice
from wharfinger.model.units import quoted
from wharfinger.simulator.scenario.traces import (
    WINDOW,
    Trace,
    TraceJob,
    TraceServer,
    Window,
    usable,
)

_FIELDS = 18
_SUBMIT, _RUN_TIME, _ALLOCATED, _USED_KIB = 1, 3, 4, 6
_REQUESTED, _REQUESTED_TIME, _REQUESTED_KIB, _STATUS, _EXECUTABLE = 7, 8, 9, 10, 13
_PARTS = (2, 3, 4)  # status of lines that state a part of a job; the whole has its own line


class Larger(StrEnum):
    """What becomes of jobs that are larger than every server."""

    SPREAD = "spread"
    """They may use as many servers as it takes."""
    SKIP = "skip"
    """They are left out, and counted."""


@dataclass(frozen=True, slots=True)
class SwfTrace:
    """A trace in the Standard Workload Format."""

    path: Annotated[str, FILE("The file.", name="file")]
    memory_bytes: Annotated[int, MEMORY("Of each server of which its header tells.")] = 64 * 1024**3
    larger: Annotated[
        Larger,
        choice(Larger, "spread")(
            "Jobs larger than every server: spread over several, or left out."
        ),
    ] = Larger.SPREAD
    window: Annotated[Window, WINDOW] = field(default_factory=Window)


def read_swf(trace: SwfTrace) -> Trace:
    """All jobs of the window, and the servers that the header states.

    Raises:
        InvalidInput: The file can't be read, a line is none, or no job can be used.
    """
    path = Path(trace.path)
    header: dict[str, str] = {}
    jobs, skipped = usable(path, _rows(path, header), trace.window)
    return Trace(jobs, _servers(path, header, trace.memory_bytes), skipped)


def _rows(path: Path, header: dict[str, str]) -> Iterator[TraceJob | str]:
    """Line by line; the header's values are put into ``header`` when they are met."""
    for number, text in enumerate(text_lines(path, "an SWF file", errors="replace"), start=1):
        line = text.strip()
        if line.startswith(";"):
            name, colon, value = line[1:].partition(":")
            if colon:
                header.setdefault(name.strip(), value.strip())
        elif line:
            yield _job(path, number, line.split())


def fitted(trace: Trace, larger: Larger, cpu_millicpus: int) -> Trace:
    """Jobs that are larger than a server of so much CPU, spread or left out."""
    wide = sum(job.cpu_millicpus > cpu_millicpus for job in trace.jobs)
    if not wide:
        return trace
    if larger is Larger.SKIP:
        kept = tuple(job for job in trace.jobs if job.cpu_millicpus <= cpu_millicpus)
        skipped = {**trace.skipped, "larger than every server": wide}
        return replace(trace, jobs=kept, skipped=skipped)
    return replace(trace, jobs=tuple(_spread(job, cpu_millicpus) for job in trace.jobs))


def _spread(job: TraceJob, cpu_millicpus: int) -> TraceJob:
    servers = -(-job.cpu_millicpus // cpu_millicpus)
    if servers == 1 or job.servers > 1:
        return job
    return replace(
        job, servers=servers, memory_bytes=max(MIN_MEMORY_BYTES, -(-job.memory_bytes // servers))
    )


def _job(path: Path, number: int, fields: list[str]) -> TraceJob | str:
    values = _values(path, number, fields)
    processors = values[_ALLOCATED] if values[_ALLOCATED] > 0 else values[_REQUESTED]
    if values[_STATUS] in _PARTS:
        return "that tell part of a job"
    if values[_SUBMIT] < 0:
        return "without an arrival"
    if values[_RUN_TIME] < 0:
        return "without a run time"
    if not values[_RUN_TIME]:
        return "that took no time"
    if processors <= 0:
        return "without processors"
    kib = max(values[_USED_KIB], values[_REQUESTED_KIB], 0.0)
    executable, requested = int(values[_EXECUTABLE]), values[_REQUESTED_TIME]
    return TraceJob(
        f"job-{fields[0]}",
        values[_SUBMIT],
        values[_RUN_TIME],
        round(processors * 1000),
        max(MIN_MEMORY_BYTES, round(kib * 1024 * processors)),  # both are stated for one processor
        application=f"executable-{executable}" if executable >= 0 else "",
        requested_seconds=requested if requested > 0 else None,
    )


def _values(path: Path, number: int, fields: list[str]) -> list[float]:
    if len(fields) != _FIELDS:
        raise InvalidInput(f"{path}:{number}: {len(fields)} fields; a job has {_FIELDS}")
    values = []
    for text in fields:
        try:
            value = float(text)
        except ValueError:
            value = nan
        if not isfinite(value):
            words = f"{quoted(text)} is not a number; write -1 for unknown"
            raise InvalidInput(f"{path}:{number}: {words}")
        values.append(value)
    return values


def _servers(path: Path, header: dict[str, str], memory_bytes: int) -> tuple[TraceServer, ...]:
    """As many as ``MaxNodes`` says, ``MaxProcs`` shared evenly among them."""
    nodes = _counted(path, header, "MaxNodes")
    processors = _counted(path, header, "MaxProcs") or nodes
    if not nodes or not processors:
        return ()
    cpus = max(1, processors // nodes)
    return (TraceServer("node", cpus * 1000, memory_bytes),) * nodes


def _counted(path: Path, header: dict[str, str], name: str) -> int:
    text = header.get(name, "").split(" ")[0].strip()
    if not text or text == "-1":
        return 0
    if not text.isdecimal():
        raise InvalidInput(f"{path}: header {name}: {quoted(text)} is not a number; mend the line")
    return int(text)
