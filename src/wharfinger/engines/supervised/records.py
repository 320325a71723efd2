"""The engine's own records of a start, in the same directory as the supervisor's.

    start   where it was to run and in which cgroups; there before anything is launched
    end     the report of its end, once that is settled, and of its start before it
    not-alive   the grace with which it is stopped because its liveness probe failed

A run directory appears whole, by rename, so one with a name of ours and without ``start`` is
another program's.
"""

import json
import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf
from pathlib import Path

import msgspec

from wharfinger.core import events as ev
from wharfinger.core.codec import decode_event, encode_event
from wharfinger.errors import NotFound, OutOfSpace, StoreDamaged
from wharfinger.host.keys import KEY
from wharfinger.host.reports import End
from wharfinger.host.run_dir import open_run_dir, read_text, write_synced
from wharfinger.model.allocation import Placement

_UNFINISHED = ".new."


@dataclass(frozen=True, slots=True)
class StartRecord:
    """Where a start was to run, by its newest allocation, and its cgroups (``Group.to_plain``).

    Without a placement: its key was stopped before it was started. ``latency_critical`` work has a
    short quota period.
    """

    placement: Placement | None
    cpus: tuple[int, ...] = ()
    groups: Mapping[str, str] = field(default_factory=dict)
    latency_critical: bool = False


@dataclass(frozen=True, slots=True)
class EndRecord:
    """The reports of its start (``None`` where it never ran) and of its end, which are final."""

    started: ev.WorkloadStarted | None
    end: End


def create_run(directory: Path, key: str, start: StartRecord) -> Path:
    """Make a run directory, durably; there must be none of that key.

    Raises ``OutOfSpace`` if it can't be made; then nothing is left behind.
    """
    unfinished, run_dir = directory / f"{_UNFINISHED}{key}", directory / key
    try:
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(mode=0o700)
        _put(unfinished, "start", start)
        unfinished.rename(run_dir)
        with open_run_dir(directory) as folder:
            os.fsync(folder)
    except OSError as error:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise OutOfSpace(f"cannot make {run_dir}: {error.strerror}") from error
    return run_dir


def save_start(run_dir: Path, start: StartRecord) -> None:
    """Replace the start record; raises ``OSError`` without room, and the former stays."""
    _put(run_dir, "start", start)


def read_start(run_dir: Path) -> StartRecord | None:
    """The start record; ``None`` where there is none that can be read."""
    try:
        return msgspec.json.decode(_read(run_dir, "start"), type=StartRecord)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


def save_end(run_dir: Path, record: EndRecord) -> None:
    """Write down how it ended; raises ``OSError`` without room."""
    reports = [encode_event(report) for report in (record.started, record.end) if report]
    _put(run_dir, "end", [(kind, payload.decode()) for kind, payload in reports])


def read_end(run_dir: Path) -> EndRecord | None:
    """How it ended; ``None`` while that is not settled, or the record can't be read."""
    started, end = None, None
    try:
        plain = msgspec.json.decode(_read(run_dir, "end"), type=list[tuple[str, str]])
        for kind, payload in plain:
            report = decode_event(kind, payload.encode())
            if getattr(report, "key", None) != run_dir.name:
                return None  # A workload may not speak for its neighbor.
            if isinstance(report, ev.WorkloadStarted):
                started = report
            elif isinstance(report, End) and _is_possible(report):
                end = report
    except (msgspec.MsgspecError, UnicodeError, RecursionError, StoreDamaged):
        return None
    return None if end is None else EndRecord(started, end)


def note_not_alive(run_dir: Path, grace_seconds: float) -> None:
    """Write down that it is stopped for not being alive; raises ``OSError`` without room."""
    _put(run_dir, "not-alive", grace_seconds)


def not_alive_grace_seconds(run_dir: Path) -> float | None:
    """The grace with which it is so stopped; ``None`` = it is not, as far as can be read."""
    try:
        grace_seconds = msgspec.json.decode(_read(run_dir, "not-alive"), type=float)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
    return grace_seconds if 0 <= grace_seconds < inf else None


def _is_possible(end: End) -> bool:
    return not isinstance(end, ev.WorkloadFinished) or (
        0 <= (end.exit_code or 0) <= 255 and 0 <= (end.signal or 0) <= 64
    )


def list_keys(directory: Path) -> list[str]:
    """Names that can be keys, in a stable order; removes what a crash left half-done."""
    keys = []
    for entry in sorted(directory.iterdir()):
        if entry.name.startswith(_UNFINISHED):
            shutil.rmtree(entry, ignore_errors=True)
        elif KEY.fullmatch(entry.name):
            keys.append(entry.name)
    return keys


def remove_run(run_dir: Path) -> None:
    """Remove a run directory with all that is in it, or a link in its place.

    It loses its name at once: one that a crash leaves half-removed is no run any more, and
    ``list_keys`` removes the rest.
    """
    if run_dir.is_symlink():
        run_dir.unlink(missing_ok=True)
        return
    unfinished = run_dir.with_name(f"{_UNFINISHED}{run_dir.name}")
    shutil.rmtree(unfinished, ignore_errors=True)
    with suppress(OSError):
        run_dir.rename(unfinished)
    shutil.rmtree(unfinished, ignore_errors=True)
    shutil.rmtree(run_dir, ignore_errors=True)


def _put(run_dir: Path, name: str, value: object) -> None:
    # In ASCII, as all records are: a reason may quote whatever a user wrote.
    text = json.dumps(msgspec.to_builtins(value))
    with open_run_dir(run_dir) as folder:
        own = f"{name}.new.{os.getpid()}"
        try:
            write_synced(folder, own, text)
            os.rename(own, name, src_dir_fd=folder, dst_dir_fd=folder)
            os.fsync(folder)
        finally:
            with suppress(OSError):
                os.unlink(own, dir_fd=folder)


def _read(run_dir: Path, name: str) -> bytes:
    try:
        with open_run_dir(run_dir) as folder:
            return (read_text(folder, name) or "").encode("ascii")
    except NotFound:
        return b""
