"""A command that prints a number, run while others are sampled and killed when it is late.

Its parent ``native/reader`` then kills all that it started, also when the meter has died.
"""

import os
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from wharfinger.model.workload import NAMED_NUMBERS
from wharfinger.monitor.patterns import NUMBER, number
from wharfinger.monitor.source import ReaderError

LIMIT_SECONDS = 5.0
MAX_BYTES = 65536

# Not by ``wharfinger.native``, which would bring NumPy into the meter.
READER = str(Path(__file__).parents[1] / "native" / "wharfinger-reader")
"""Runs a command, and ends with who started it; see ``native/reader``."""
_NOT_RUN = 127


class CommandRun:
    """One command, run at most once at a time; none of its processes outlives a run.

    ``user`` is who it runs as: uid, gid and groups; empty = as we do.
    """

    def __init__(
        self,
        command: tuple[str, ...],
        env: Mapping[str, str],
        working_directory: str,
        user: tuple[int, ...] = (),
    ) -> None:
        self._user = ":".join(map(str, user)) or "-"
        self._command = command
        self._env = dict(env)
        self._working_directory = working_directory
        self._process: subprocess.Popen[bytes] | None = None
        self._output = b""
        self._began = 0.0

    @property
    def under_way(self) -> bool:
        """Whether it has begun and has not been found to have ended."""
        return self._process is not None

    def output(self) -> bytes | None:
        """What it printed, once it has ended with status 0, else ``ReaderError``; ``None`` before.

        It must have begun.
        """
        process = self._process
        assert process is not None
        self._drain(process)
        if process.poll() is None:
            return None
        self._drain(process)
        output = self._output
        why_not_run = _complaint(process)
        self.close()
        if why_not_run:
            raise ReaderError(f"cannot run {self._command[0]}: {why_not_run}")
        if process.returncode > 128:
            raise ReaderError(f"{self._command[0]} was ended by signal {process.returncode - 128}")
        if process.returncode != 0:
            raise ReaderError(f"{self._command[0]} ended with status {process.returncode}")
        return output

    def close(self) -> None:
        """End the run; the reader gives up on what can't be killed in 2 s."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        process.wait()
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()

    def begin(self) -> None:
        """Start it; raises ``ReaderError``."""
        self._output, self._began = b"", time.monotonic()
        try:
            self._process = subprocess.Popen(
                [READER, str(os.getpid()), self._user, *self._command],
                env=self._env,
                cwd=self._working_directory,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                process_group=0,
            )
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise ReaderError(f"cannot run {self._command[0]}: {reason}") from error
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdout.fileno(), False)

    def _drain(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        with suppress(BlockingIOError):
            while data := os.read(process.stdout.fileno(), MAX_BYTES):
                self._output = (self._output + data)[-MAX_BYTES:]
                if time.monotonic() - self._began > LIMIT_SECONDS:
                    return


class Command(CommandRun):
    """One that prints a number and begins again as soon as that has been taken."""

    def __init__(
        self,
        command: tuple[str, ...],
        env: Mapping[str, str],
        working_directory: str,
        limit_seconds: float = LIMIT_SECONDS,
        *,
        user: tuple[int, ...] = (),
    ) -> None:
        super().__init__(command, env, working_directory, user)
        self._limit_seconds = limit_seconds

    def take(self) -> tuple[float, dict[str, float]] | None:
        """When it began and what it printed, else ``ReaderError``; ``None`` while it runs."""
        if not self.under_way:
            self.begin()
            return None
        output = self.output()
        if output is None:
            if time.monotonic() - self._began > self._limit_seconds:
                self.close()
                raise ReaderError(f"{self._command[0]} took longer than {self._limit_seconds:g} s")
            return None
        began, printed = self._began, numbers(output.decode(errors="replace"))
        self.begin()
        return began, printed


def _complaint(reader: subprocess.Popen[bytes]) -> str:
    if reader.returncode != _NOT_RUN or reader.stderr is None:
        return ""
    os.set_blocking(reader.stderr.fileno(), False)
    with suppress(BlockingIOError):
        return os.read(reader.stderr.fileno(), MAX_BYTES).decode(errors="replace")
    return ""


def numbers(output: str) -> dict[str, float]:
    r"""The number that a command printed, or those after known names; else ``ReaderError``.

    >>> numbers("42\n")
    {'number': 42.0}
    >>> numbers("throughput 1,200\nlatency_ms=1.5\n")
    {'throughput': 1200.0, 'latency_ms': 1.5}
    """
    printed: dict[str, float] = {}
    for line in output.splitlines():
        name, _, value = line.strip().replace("=", " ").replace(":", " ").rpartition(" ")
        with suppress(ValueError):
            if value and (not name or name.strip() in NAMED_NUMBERS):
                printed[name.strip() or NUMBER] = number(value)
    if not printed:
        raise ReaderError(f"printed no number, but {output.strip()[:40]!r}")
    return printed
