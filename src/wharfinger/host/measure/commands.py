"""A command that prints a number, run beside the others' samples and killed when it is late."""

import os
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress

from wharfinger.host.measure.patterns import NUMBER, SCALES, number

LIMIT_SECONDS = 5.0
MAX_BYTES = 65536


class CommandError(Exception):
    """It gave no number; the message says why."""


class Command:
    """One command, run at most once at a time, in a process group of its own."""

    def __init__(
        self,
        command: tuple[str, ...],
        env: Mapping[str, str],
        working_directory: str,
        limit_seconds: float = LIMIT_SECONDS,
    ) -> None:
        self._command = command
        self._env = dict(env)
        self._working_directory = working_directory
        self._limit_seconds = limit_seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._output = b""
        self._began = 0.0

    def take(self) -> tuple[float, dict[str, float]] | None:
        """When it was run and what it printed last, once; and begin the next run.

        Returns:
            ``None`` while it runs.

        Raises:
            CommandError: It gave no number.
        """
        process = self._process
        if process is None:
            self._begin()
            return None
        self._drain(process)
        if process.poll() is None:
            self._kill_if_late(process)
            return None
        self._drain(process)
        began, output = self._began, self._output
        self.close()
        if process.returncode != 0:
            raise CommandError(f"{self._command[0]} ended with status {process.returncode}")
        found = numbers(output.decode(errors="replace"))
        self._begin()
        return began, found

    def close(self) -> None:
        """End what is left of the run."""
        process, self._process = self._process, None
        if process is None:
            return
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if process.stdout is not None:
            process.stdout.close()

    def _begin(self) -> None:
        self._output, self._began = b"", time.monotonic()
        try:
            self._process = subprocess.Popen(
                self._command,
                env=self._env,
                cwd=self._working_directory,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                process_group=0,
            )
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise CommandError(f"cannot run {self._command[0]}: {reason}") from error
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdout.fileno(), False)

    def _drain(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        with suppress(BlockingIOError):
            while data := os.read(process.stdout.fileno(), MAX_BYTES):
                self._output = (self._output + data)[-MAX_BYTES:]
                if time.monotonic() - self._began > self._limit_seconds:
                    return

    def _kill_if_late(self, process: subprocess.Popen[bytes]) -> None:
        if time.monotonic() - self._began > self._limit_seconds:
            self.close()
            raise CommandError(f"{self._command[0]} took longer than {self._limit_seconds:g} s")


def numbers(output: str) -> dict[str, float]:
    r"""What a command printed: one number, or lines of a known name and a number.

    Raises:
        CommandError: There is none.

    >>> numbers("42\n")
    {'number': 42.0}
    >>> numbers("throughput 1,200\nlatency_ms=1.5\n")
    {'throughput': 1200.0, 'latency_ms': 1.5}
    """
    found: dict[str, float] = {}
    for line in output.splitlines():
        name, _, value = line.strip().replace("=", " ").replace(":", " ").rpartition(" ")
        known = name.strip() in SCALES or not name
        with suppress(ValueError):
            if known and value:
                found[name.strip() or NUMBER] = number(value)
    if not found:
        raise CommandError(f"printed no number, but {output.strip()[:40]!r}")
    return found
