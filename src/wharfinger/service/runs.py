"""Runs that have ended, as the API shows them: for accounting, and of one workload.

Called by ``workloads`` for one workload's earlier runs, and by ``routes_cluster`` for all.
"""

import re
from collections.abc import Iterator, Sequence, Set

from pydantic import Field

from wharfinger.core.lifecycle import Phase
from wharfinger.core.pipeline import Core
from wharfinger.core.state import RunSummary, summary_of
from wharfinger.service.models import ApiModel, Cpus, Timestamp, span_seconds


class RunModel(ApiModel):
    """A run that has ended, and what it took."""

    name: str = Field(description="The workload's.")
    run: int = Field(description="Counts the runs of this name, from 1.")
    uid: int = Field(description="Of the workload; never used again, unlike a name.")
    phase: Phase = Field(description="How it ended.")
    submitted_at: Timestamp
    started_at: Timestamp | None = Field(description="`null` = it never was.")
    ended_at: Timestamp | None = Field(description="`null` = unknown.")
    run_seconds: float | None = Field(description="From its start to its end.")
    exit_code: int | None = Field(description="`null` = a signal ended it, or unknown.")
    signal: int | None = Field(description="The signal that ended it.")
    reason: str = Field(description="Stable word for why it ended so; may be empty.")
    message: str = Field(description="The same for people.")
    restarts: int = Field(description="How often its program was started again.")
    servers: list[str] = Field(description="Where it was when it ended.")
    cpus: Cpus = Field(
        validation_alias="cpu_millicpus", description="Guaranteed, on all its servers."
    )
    memory_bytes: int = Field(description="Limit on memory, on all its servers together.")
    cpu_seconds: float | None = Field(description="CPU time of its last start's whole tree.")
    memory_peak_bytes: int | None = Field(description="Of its last start.")
    predicted: float | None = Field(description="Predicted performance / target, when it ended.")
    achieved: float | None = Field(description="Achieved performance / target.")
    met: bool | None = Field(
        validation_alias="kept", description="Whether its target was kept; `null` = unknown."
    )
    key: str = Field(description="Of its last start; empty = there was none.")


def run(summary: RunSummary) -> RunModel:
    """One run."""
    started, ended = summary.started_at, summary.ended_at
    known = started is not None and ended is not None
    seconds = span_seconds(started or 0.0, ended or 0.0) if known else None
    return RunModel.of(summary, run_seconds=seconds, servers=list(summary.servers))


def ended_runs(manager: Core, *, names: Sequence[str] | None, limit: int) -> list[RunModel]:
    """The newest that have ended, oldest first; ``names``: of these workloads or arrays."""
    found = list(_all(manager))
    if names is not None:
        there_are = {summary.name for summary in found}
        wanted = {each for name in names for each in _meant(name, there_are)}
        found = [summary for summary in found if summary.name in wanted]
    found.sort(key=lambda one: (one.ended_at or one.submitted_at, one.uid, one.run))
    return [run(summary) for summary in found[-limit:]]


def _meant(name: str, there_are: Set[str]) -> Set[str]:
    """A workload's name, or those of an array's members: summaries do not keep the array's."""
    member = re.compile(re.escape(name) + r"-\d+")
    return {name} if name in there_are else set(filter(member.fullmatch, there_are))


def _all(manager: Core) -> Iterator[RunSummary]:
    """Also of workloads whose records are gone."""
    yield from manager.state.history
    for record in manager.state.workloads.values():
        yield from record.previous
        if record.ended:
            yield summary_of(record)
