"""What the run directories of a start on several nodes say together: pure.

It has begun when its program runs on each of them, and is over when it has ended on each. How it
ended is how the first that failed did, else how the last did.
"""

from collections.abc import Sequence
from dataclasses import replace

from wharfinger.engines.slurm.ends import RunReading
from wharfinger.host.run_dir import Claim, ExitRecord, RunRecord, Started

_TAKEN = frozenset({Claim.TAKEN, Claim.UNREADABLE})


def merged(readings: Sequence[RunReading], said: str = "") -> RunReading:
    """One reading of all nodes.

    Args:
        readings: Of each node.
        said: By Slurm or the script, where nothing was started.
    """
    claims = [reading.record.claim for reading in readings]
    ended = [reading for reading in readings if reading.record.exit is not None]
    failed = [reading for reading in ended if _failed(reading.record.exit)]
    over = len(ended) == sum(claim is not Claim.CANCELLED for claim in claims)
    told = min(failed, key=_ended_at) if failed else max(ended, key=_ended_at, default=None)
    record = RunRecord(
        _claim_of(claims),
        readings[0].record.supervisor,
        _started(readings),
        _together(told, ended) if over and told is not None else None,
    )
    return RunReading(
        record,
        stop_asked=any(reading.stop_asked for reading in readings),
        last_line=told.last_line if told is not None else "",
        fault="" if ended else said,
        unshared=all(reading.unshared for reading in readings),
        not_alive=any(reading.not_alive for reading in readings),
        part_failed=bool(failed) and not over,
    )


def _claim_of(claims: Sequence[Claim]) -> Claim:
    """Taken as soon as it may have begun anywhere, cancelled once it never will."""
    if not _TAKEN.isdisjoint(claims):
        return Claim.TAKEN
    return Claim.NONE if Claim.NONE in claims else Claim.CANCELLED


def _started(readings: Sequence[RunReading]) -> Started | None:
    """When it began on the last of them; ``None`` = it has not on each."""
    records = [r.record for r in readings if r.record.claim is not Claim.CANCELLED]
    if not all(record.started is not None or record.exit is not None for record in records):
        return None
    started = [record.started for record in records if record.started is not None]
    return max(started, key=lambda each: each.started_at_seconds, default=None)


def _failed(record: ExitRecord | None) -> bool:
    return record is not None and not record.stop_requested and record.exit_code != 0


def _ended_at(reading: RunReading) -> float:
    return reading.record.exit.ended_at_seconds if reading.record.exit is not None else 0.0


def _together(told: RunReading, ended: Sequence[RunReading]) -> ExitRecord | None:
    exits = [reading.record.exit for reading in ended if reading.record.exit is not None]
    if told.record.exit is None:
        return None
    return replace(
        told.record.exit,
        cpu_seconds=sum(each.cpu_seconds for each in exits),
        ended_at_seconds=max(each.ended_at_seconds for each in exits),
    )
