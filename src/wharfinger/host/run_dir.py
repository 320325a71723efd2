"""A run directory: what a supervisor leaves behind, and how to read it safely.

    claim               its supervisor, or that it is cancelled; taken once, never given back
    started             the main process, once exec has succeeded
    exit                how it ended
    stop                the grace of a stop that was asked for
    pace, suspended     the share of CPU time that holds, where the supervisor sees to it; see
                        ``wharfinger.host.pacing``
    output.<offset>     output, named by the offset of its first byte

The directory may have been meddled with: everything is opened beneath one directory
descriptor, only regular files are read, links are never followed, sizes are limited.

Who calls: the local engine, for reports and logs; ``wharfinger.host.supervisor`` for the claim.
"""

import contextlib
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from wharfinger.errors import InvalidInput, NotFound
from wharfinger.host.processes import ProcessIdentity

CANCELLED = "cancelled\n"
"""What a claim says when no launch may ever succeed."""

_MAX_RECORD_BYTES = 16384
_MAX_OFFSET = 2**63 - 1
_LOOKS = 16
"""At a directory that changes while it is read; rotation alone needs a second one at most."""
_SEGMENT = re.compile(r"output\.(\d{20})\Z")


class Claim(Enum):
    """Whose the run is."""

    NONE = "none"
    """Not claimed: nothing was started."""
    TAKEN = "taken"
    """A supervisor's; see ``RunRecord.supervisor``."""
    CANCELLED = "cancelled"
    """Cancelled: no launch can succeed any more."""
    UNREADABLE = "unreadable"
    """Of a dead supervisor: claims appear whole, so this one was damaged afterwards."""


@dataclass(frozen=True, slots=True)
class Started:
    """The program runs, or did.

    Attributes:
        process: The main process.
        started_at_seconds: Wall-clock time, seconds since 1970.
    """

    process: ProcessIdentity
    started_at_seconds: float


@dataclass(frozen=True, slots=True)
class ExitRecord:
    """How it ended. Exactly one of ``exit_code``, ``signal``, ``failed_step`` is not ``None``.

    Attributes:
        exit_code: As the program gave it.
        signal: The number of the signal that ended it.
        failed_step: It did not start, for certain: what failed, e.g. ``"exec"``,
            ``"working_directory"``, ``"cgroup"``; ``"killed"`` = stopped before its exec.
        failed_errno: Why the step failed; 0 for ``"killed"``.
        stop_requested: A stop was asked for before it ended.
        cpu_seconds: User and system time of the whole tree.
        started_at_seconds: Wall-clock time, seconds since 1970.
        ended_at_seconds: Likewise, of the main process's end.
        output_bytes: All that it wrote.
        dropped_bytes: Of these, what could not be stored (not what rotation dropped).
        unkilled_processes: Processes that resisted SIGKILL, e.g. another user's; normally 0.
    """

    exit_code: int | None
    signal: int | None
    failed_step: str | None
    failed_errno: int | None
    stop_requested: bool
    cpu_seconds: float
    started_at_seconds: float
    ended_at_seconds: float
    output_bytes: int
    dropped_bytes: int
    unkilled_processes: int


@dataclass(frozen=True, slots=True)
class RunRecord:
    """Everything that a run directory tells.

    A taken claim, no exit record and a dead supervisor: the run *vanished*, and it is unknown
    how it ended.

    Attributes:
        claim: Whose the run is.
        supervisor: Who claimed it; ``None`` unless ``claim`` is ``TAKEN``.
        started: ``None`` = not known to have started.
        exit: ``None`` = not known to have ended.
    """

    claim: Claim
    supervisor: ProcessIdentity | None
    started: Started | None
    exit: ExitRecord | None


# --- files ------------------------------------------------------------------------------


@contextlib.contextmanager
def open_run_dir(run_dir: Path) -> Iterator[int]:
    """A descriptor of the directory itself, never of what a link in its place leads to.

    Raises:
        NotFound: There is no such directory.
        OSError: It can't be opened now, e.g. for want of descriptors.
    """
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        try:
            directory = os.open(run_dir, flags)
        except PermissionError:
            _take_back_rights(run_dir)
            directory = os.open(run_dir, flags)
    except (FileNotFoundError, NotADirectoryError, PermissionError) as error:
        raise NotFound(f"{run_dir}: no run directory: {error.strerror}") from error
    try:
        yield directory
    finally:
        os.close(directory)


def _take_back_rights(run_dir: Path) -> None:
    """A workload of our own user may have taken them from us, and the record is in there."""
    flags = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    directory = os.open(run_dir, flags)
    try:
        os.chmod(f"/proc/self/fd/{directory}", 0o700)  # noqa: PTH101 - a descriptor, not a path
    finally:
        os.close(directory)


def write_synced(directory: int, name: str, text: str) -> None:
    """Write a new file, in place of whatever has the name; raises ``OSError``."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name, dir_fd=directory)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(name, flags, 0o600, dir_fd=directory)
    try:
        view = memoryview(text.encode())
        while view:  # A disk that fills up takes a part first, and only then says so.
            view = view[os.write(fd, view) :]
        os.fsync(fd)
    finally:
        os.close(fd)


def _open_regular(directory: int, name: str) -> int | None:
    """A descriptor of a regular file; ``None`` for anything else, links and FIFOs included."""
    try:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        fd = os.open(name, flags, dir_fd=directory)
    except OSError:
        return None
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    return None


def read_text(directory: int, name: str) -> str | None:
    """The beginning of a small file; ``None`` when it is no regular file or unreadable."""
    fd = _open_regular(directory, name)
    if fd is None:
        return None
    try:
        return os.read(fd, _MAX_RECORD_BYTES).decode("ascii", errors="replace")
    except OSError:
        return None
    finally:
        os.close(fd)


# --- records ----------------------------------------------------------------------------


def read_run(run_dir: Path) -> RunRecord:
    """Everything that is known of a run. Damaged or foreign files count as not there.

    Raises:
        NotFound: There is no such run directory.
    """
    with open_run_dir(run_dir) as directory:
        # The exit first: a supervisor that ends in between has then its claim and start known.
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


def _parse_lines(text: str | None) -> dict[str, str] | None:
    """``name value`` lines; ``None`` when the last of them, ``end``, is missing."""
    lines = (text or "").rstrip("\n").split("\n")
    if lines[-1] != "end":
        return None
    return {name: value for name, _, value in (line.partition(" ") for line in lines[:-1])}


def _parse_started(text: str | None) -> Started | None:
    try:
        values = _parse_lines(text) or {}
        process = _parse_identity(values["process"])
        return Started(process, _seconds(values["started_at_seconds"])) if process else None
    except (KeyError, ValueError):
        return None


def _parse_exit(text: str | None) -> ExitRecord | None:
    try:
        values = _parse_lines(text) or {}
        code, number, step, error = _parse_how(values["how"].split(" "))
        return ExitRecord(
            exit_code=code,
            signal=number,
            failed_step=step,
            failed_errno=error,
            stop_requested=values["stop_requested"] == "1",
            cpu_seconds=_seconds(values["cpu_seconds"]),
            started_at_seconds=_seconds(values["started_at_seconds"]),
            ended_at_seconds=_seconds(values["ended_at_seconds"]),
            output_bytes=_count(values["output_bytes"]),
            dropped_bytes=_count(values["dropped_bytes"]),
            unkilled_processes=_count(values["unkilled_processes"]),
        )
    except (KeyError, ValueError):
        return None


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 <= seconds < 1e12:  # nor NaN: no log could keep it
        raise ValueError(text)
    return seconds


def _count(text: str, most: int = 2**63 - 1) -> int:
    number = int(text)
    if not 0 <= number <= most:
        raise ValueError(text)
    return number


def _parse_how(words: list[str]) -> tuple[int | None, int | None, str | None, int | None]:
    match words:
        case ["exited", code]:
            return _count(code, 255), None, None, None
        case ["signaled", number]:
            return None, _count(number, 64), None, None
        case ["exec-failed", step, error]:
            return None, None, step, _count(error, 4095)
    raise ValueError(words)


# --- output -----------------------------------------------------------------------------


def read_output(run_dir: Path, offset: int = 0, limit_bytes: int = 65536) -> tuple[bytes, int]:
    """A piece of the program's output, as the program wrote it.

    Args:
        run_dir: The run.
        offset: Counted from the program's first byte; negative = from the end of what there is.
        limit_bytes: Of the piece.

    Returns:
        The bytes and the offset behind them. The piece is unbroken: where rotation or a full
        disk dropped something it begins, or ends, and the next one begins behind the gap.

    Raises:
        NotFound: There is no such run directory.
        InvalidInput: No output can be so long.
    """
    if not -_MAX_OFFSET <= offset <= _MAX_OFFSET:
        raise InvalidInput(f"offset: {offset}; give a number from -(2^63 - 1) to 2^63 - 1")
    piece = b"", max(0, offset)
    with open_run_dir(run_dir) as directory:
        # Rotation may take a segment away between the look and the reading: look again. A
        # program that goes on making such changes gets an empty piece: ask again later.
        for _ in range(_LOOKS):
            segments = _segments(directory)
            piece = _read_segments(directory, segments, offset, limit_bytes)
            if piece[0] or segments == _segments(directory):
                break
    return piece


def _segments(directory: int) -> list[int]:
    """Where the kept segments begin, in order."""
    matches = (_SEGMENT.match(name) for name in os.listdir(directory))
    starts = (int(match[1]) for match in matches if match)
    return sorted(start for start in starts if start <= _MAX_OFFSET)


def _read_segments(
    directory: int, segments: list[int], offset: int, limit_bytes: int
) -> tuple[bytes, int]:
    if offset < 0:
        offset = max(0, _end_of_output(directory, segments) + offset)
    data = b""
    for start in segments:
        if data and start != offset + len(data):
            break
        begin = max(start, offset) if not data else start
        chunk = _read_segment(directory, start, begin - start, limit_bytes - len(data))
        if chunk and not data:
            offset = begin
        data += chunk
    return data, offset + len(data)


def _end_of_output(directory: int, segments: list[int]) -> int:
    return segments[-1] + _size_of(directory, segments[-1]) if segments else 0


def _size_of(directory: int, start: int) -> int:
    fd = _open_regular(directory, f"output.{start:020}")
    if fd is None:
        return 0
    try:
        return os.fstat(fd).st_size
    finally:
        os.close(fd)


def _read_segment(directory: int, start: int, position: int, limit_bytes: int) -> bytes:
    fd = _open_regular(directory, f"output.{start:020}") if limit_bytes > 0 else None
    if fd is None:
        return b""
    try:
        size = os.fstat(fd).st_size
        return os.pread(fd, min(limit_bytes, size - position), position) if position < size else b""
    finally:
        os.close(fd)
