"""A run directory: the records that a supervisor writes, read safely.

    claim               its supervisor, or "cancelled"; written once, never removed
    started             the main process, once exec has succeeded
    exit                how it ended
    stop                the grace of a requested stop
    pace, suspended     the share of CPU time that it keeps without cgroups; stopped, and by whom
    output.<offset>     output, named by the offset of its first byte
    times.<offset>      when it was written

A workload may tamper with the directory: everything is opened beneath one directory descriptor,
only regular files are read, links are never followed, sizes are limited. Where there is no
directory, functions raise ``NotFound``.
"""

import contextlib
import os
import re
import stat
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated

import msgspec

from wharfinger.errors import InvalidInput, NotFound
from wharfinger.files.atomic import closing_fd
from wharfinger.host.processes import ProcessIdentity

CANCELLED = "cancelled\n"
"""The claim after which no launch can succeed."""


_MAX_RECORD_BYTES = 16384
_MAX_OFFSET = 2**63 - 1
_LOOKS = 16  # at a directory that changes while it is read; rotation alone needs two at most
_TIME = struct.Struct("<QQ")
_MAX_TIMES_BYTES = 4 << 20
_SEGMENT = re.compile(r"output\.(\d{20})\Z")
_Seconds = Annotated[float, msgspec.Meta(ge=0, lt=1e12)]
_Count = Annotated[int, msgspec.Meta(ge=0, le=_MAX_OFFSET)]
_HOW = {
    "exited": ("exit_code",),
    "signaled": ("signal",),
    "exec-failed": ("failed_step", "failed_errno"),
}
_UNSET = dict.fromkeys(("exit_code", "signal", "failed_step", "failed_errno"))


class Claim(Enum):
    """Who has claimed the run."""

    NONE = "none"  # nothing was started
    TAKEN = "taken"  # by ``RunRecord.supervisor``
    CANCELLED = "cancelled"  # no launch can succeed
    UNREADABLE = "unreadable"  # a dead supervisor's: claims appear whole, it was damaged later


@dataclass(frozen=True, slots=True)
class Started:
    """The main process, and when it started (wall clock, seconds since 1970)."""

    process: ProcessIdentity
    started_at_seconds: float


@dataclass(frozen=True, slots=True)
class ExitRecord:
    """How it ended. Exactly one of ``exit_code``, ``signal``, ``failed_step`` is not ``None``.

    Attributes:
        failed_step: Before the program started, e.g. ``"exec"``, ``"working_directory"``,
            ``"cgroup"``; ``"killed"`` = stopped before its exec, with a ``failed_errno`` of 0.
        cpu_seconds: User and system time of the whole tree.
        started_at_seconds: Since 1970; likewise ``ended_at_seconds``, of the main process.
        dropped_bytes: Output that could not be stored, without what rotation dropped.
        unkilled_processes: Processes that resisted SIGKILL, e.g. another user's; normally 0.
    """

    exit_code: Annotated[int, msgspec.Meta(ge=0, le=255)] | None
    signal: Annotated[int, msgspec.Meta(ge=0, le=64)] | None
    failed_step: str | None
    failed_errno: Annotated[int, msgspec.Meta(ge=0, le=4095)] | None
    stop_requested: bool
    cpu_seconds: _Seconds
    started_at_seconds: _Seconds
    ended_at_seconds: _Seconds
    output_bytes: _Count
    dropped_bytes: _Count
    unkilled_processes: _Count


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A run's records; ``None`` = there is none. Taken, no exit, supervisor dead: *vanished*."""

    claim: Claim
    supervisor: ProcessIdentity | None
    started: Started | None
    exit: ExitRecord | None


# --- files ------------------------------------------------------------------------------


@contextlib.contextmanager
def open_run_dir(run_dir: Path) -> Iterator[int]:
    """A descriptor of the directory; ``NotFound`` where there is none, or a link in its place."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        try:
            directory = os.open(run_dir, flags)
        except PermissionError:
            _take_back_rights(run_dir)
            directory = os.open(run_dir, flags)
    except (FileNotFoundError, NotADirectoryError, PermissionError) as error:
        raise NotFound(f"{run_dir}: no run directory: {error.strerror}") from error
    with closing_fd(directory):
        yield directory


def _take_back_rights(run_dir: Path) -> None:
    # A workload of our own user may have removed them.
    flags = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    with closing_fd(os.open(run_dir, flags)) as directory:
        os.chmod(f"/proc/self/fd/{directory}", 0o700)  # noqa: PTH101 - a descriptor, not a path


def write_synced(directory: int, name: str, text: str | bytes) -> None:
    """Write a new file, in place of any of that name; raises ``OSError``."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name, dir_fd=directory)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with closing_fd(os.open(name, flags, 0o600, dir_fd=directory)) as fd:
        view = memoryview(text.encode() if isinstance(text, str) else text)
        while view:  # a disk that fills up accepts a part before the error
            view = view[os.write(fd, view) :]
        os.fsync(fd)


def replace_synced(directory: int, name: str, text: str) -> None:
    """Replace a file by a whole new one; raises ``OSError``."""
    own = f"{name}.new.{os.getpid()}"
    write_synced(directory, own, text)
    os.rename(own, name, src_dir_fd=directory, dst_dir_fd=directory)


def _read_regular(directory: int, name: str, position: int, limit_bytes: int) -> bytes | None:
    """A piece of a regular file; ``None`` for any other, links and FIFOs included."""
    try:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        fd = os.open(name, flags, dir_fd=directory)
    except OSError:
        return None
    with closing_fd(fd):
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            return None
        return os.pread(fd, min(limit_bytes, max(0, status.st_size - position)), position)


def read_text(directory: int, name: str) -> str | None:
    """The beginning of a small file; ``None`` when it is no regular file or unreadable."""
    with contextlib.suppress(OSError):
        text = _read_regular(directory, name, 0, _MAX_RECORD_BYTES)
        return None if text is None else text.decode("ascii", errors="replace")
    return None


# --- records ----------------------------------------------------------------------------


def read_run(run_dir: Path) -> RunRecord:
    """All records of a run. Damaged or foreign files count as missing."""
    with open_run_dir(run_dir) as directory:
        # The exit first: of a supervisor that ends meanwhile, claim and start are then read too.
        ended = _parse_exit(read_text(directory, "exit"))
        started = _parse_started(read_text(directory, "started"))
        claim, supervisor = _read_claim(directory)
    return RunRecord(claim, supervisor, started, ended)


def _read_claim(directory: int) -> tuple[Claim, ProcessIdentity | None]:
    try:
        os.stat("claim", dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return Claim.NONE, None
    text = read_text(directory, "claim") or ""
    if text == CANCELLED:
        return Claim.CANCELLED, None
    identity = _parse_identity(text.removesuffix("\n"))
    return (Claim.TAKEN, identity) if identity else (Claim.UNREADABLE, None)


def _parse_identity(text: str) -> ProcessIdentity | None:
    match = re.fullmatch(r"([0-9a-f-]{1,63}) (\d{1,10}) (\d{1,20})", text)
    return ProcessIdentity(match[1], int(match[2]), int(match[3])) if match else None


def _parse_lines(text: str | None) -> dict[str, str]:
    """``name value`` lines; empty when the last line is not ``end``."""
    lines = (text or "").rstrip("\n").split("\n")
    if lines[-1] != "end":
        return {}
    return {name: value for name, _, value in (line.partition(" ") for line in lines[:-1])}


def _parse_started(text: str | None) -> Started | None:
    with contextlib.suppress(KeyError, msgspec.ValidationError):
        values = _parse_lines(text)
        process = _parse_identity(values["process"])
        at_seconds = msgspec.convert(values["started_at_seconds"], _Seconds, strict=False)
        return Started(process, at_seconds) if process else None
    return None


def _parse_exit(text: str | None) -> ExitRecord | None:
    with contextlib.suppress(KeyError, ValueError, msgspec.ValidationError):
        values = _parse_lines(text)
        how, *numbers = values["how"].split(" ")
        ended = {**_UNSET, **values, **dict(zip(_HOW[how], numbers, strict=True))}
        return msgspec.convert(ended, ExitRecord, strict=False)
    return None


# --- output -----------------------------------------------------------------------------


def read_output(run_dir: Path, offset: int = 0, limit_bytes: int = 65536) -> tuple[bytes, int]:
    """A piece of the program's output, and the offset after it; ``InvalidInput``: no offset.

    ``offset`` is from the first byte; negative = from the present end. The piece is without gaps:
    it ends where rotation or a full disk dropped something, and the next begins after that.
    """
    if not -_MAX_OFFSET <= offset <= _MAX_OFFSET:
        raise InvalidInput(f"offset: {offset}; give a number from -(2^63 - 1) to 2^63 - 1")
    piece = b"", max(0, offset)
    with open_run_dir(run_dir) as directory:
        # Rotation may remove a segment before it is read: look again. If the changes continue,
        # the piece stays empty, and the caller asks again later.
        for _ in range(_LOOKS):
            segments = _segments(directory)
            piece = _read_segments(directory, segments, offset, limit_bytes)
            if piece[0] or segments == _segments(directory):
                break
    return piece


def output_times(run_dir: Path, offset: int = 0, length: int = 65536) -> list[tuple[int, float]]:
    """When a piece of the output was written: offsets, and since when it went on there.

    In seconds since 1970; each holds until the next, the first for ``offset``, too. Empty where
    that is not known: there is no output, or a supervisor of version 0.1 has written it.
    """
    end = offset + length
    times: list[tuple[int, float]] = []
    for at, seconds in _read_times(run_dir):
        if at >= end:
            break
        times = [(at, seconds)] if at <= offset else [*times, (at, seconds)]
    return times


def output_offset_at(run_dir: Path, seconds: float) -> int | None:
    """Where the output begins that was written at a time (seconds since 1970) or later.

    To a tenth of a second, or a 16,000th of the time for which the segment is open; with the end of
    the output if nothing is that new. ``None``: it is not known, see :func:`output_times`.
    """
    for at, written in (times := _read_times(run_dir)):
        if written >= seconds:
            return at
    with open_run_dir(run_dir) as directory:
        segments = _segments(directory)
        if segments and not times:
            return None
        return segments[-1] + _size_of(directory, segments[-1]) if segments else 0


def _read_times(run_dir: Path) -> list[tuple[int, float]]:
    times: list[tuple[int, float]] = []
    with open_run_dir(run_dir) as directory:
        for start in _segments(directory):
            data = b""
            with contextlib.suppress(OSError):
                data = _read_regular(directory, f"times.{start:020}", 0, _MAX_TIMES_BYTES) or b""
            whole = len(data) - len(data) % _TIME.size  # the last may be torn
            for at, microseconds in _TIME.iter_unpack(data[:whole]):
                # A workload may have meddled with it: offsets rise.
                if at >= start and (not times or at > times[-1][0]):
                    times.append((at, microseconds / 1e6))
    return times


def _segments(directory: int) -> list[int]:
    matches = (_SEGMENT.match(name) for name in os.listdir(directory))
    starts = (int(match[1]) for match in matches if match)
    return sorted(start for start in starts if start <= _MAX_OFFSET)


def _read_segments(
    directory: int, segments: list[int], offset: int, limit_bytes: int
) -> tuple[bytes, int]:
    if offset < 0:
        end = segments[-1] + _size_of(directory, segments[-1]) if segments else 0
        offset = max(0, end + offset)
    data = b""
    for start in segments:
        if data and start != offset + len(data):
            break
        begin = max(start, offset) if not data else start
        limit = max(0, limit_bytes - len(data))
        chunk = _read_regular(directory, _segment_name(start), begin - start, limit) or b""
        if chunk and not data:
            offset = begin
        data += chunk
    return data, offset + len(data)


def _segment_name(start: int) -> str:
    return f"output.{start:020}"


def _size_of(directory: int, start: int) -> int:
    try:
        status = os.stat(_segment_name(start), dir_fd=directory, follow_symlinks=False)
    except OSError:
        return 0
    return status.st_size if stat.S_ISREG(status.st_mode) else 0
