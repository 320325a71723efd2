"""The manager's side of the meter: starts it, tells it what to watch, receives its samples.

Nothing here waits. When the meter dies or hangs, another one is started, without the workload that
killed two of them.
"""

import logging
import os
import signal
import subprocess
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec

from wharfinger.host.processes import kill_orphans
from wharfinger.model.performance import NoSignal, Sample
from wharfinger.monitor.messages import Channel, Message, start_peer
from wharfinger.monitor.meter import HANG_SECONDS, NOTE_BYTES
from wharfinger.monitor.probes import HealthNews, HealthWord
from wharfinger.monitor.spec import WatchSpec

log = logging.getLogger(__name__)

REPORT_SECONDS, HASTENED_SECONDS = 5.0, 1.0
MAX_PAUSE_SECONDS = 30.0
MARK = ".measure"
"""Ends the key in the environment of the commands that measure."""
_KILL_SECONDS = 1.0


def kill_commands(run_dirs: Iterable[Path]) -> int:
    """Kill what measuring commands left after their reader or manager was killed; how many."""
    left = list(run_dirs)
    return kill_orphans(*left, mark=MARK, timeout_seconds=_KILL_SECONDS) if left else 0


TellNewest = Callable[[Sequence[tuple[Sample, Sample]]], None]
"""Gets each workload's unsmoothed and smoothed sample."""


TellHealth = Callable[[str, HealthNews], None]
"""Gets what is new of a workload's readiness, by its key."""


class MeterClient:
    """One meter process, which runs while something is to be measured.

    ``add`` registers a callback for a readable descriptor, ``remove`` ends that; ``tell`` gets
    samples, of all workloads every ``report_seconds``; ``tell_health`` what probes find. While it
    is hastened, it reads them every ``hastened_seconds``.
    """

    def __init__(
        self,
        add: Callable[[int, Callable[[], None]], None],
        remove: Callable[[int], None],
        tell: Callable[[Sequence[Sample]], None],
        tell_health: TellHealth,
        *,
        report_seconds: float = REPORT_SECONDS,
        hastened_seconds: float = HASTENED_SECONDS,
    ) -> None:
        self._hastened_seconds = hastened_seconds
        self._tell_health = tell_health
        self._paused: set[str] = set()
        self._add, self._remove, self._tell = add, remove, tell
        self._report_seconds = report_seconds
        self._specs: dict[str, WatchSpec] = {}
        self._struck: dict[str, str] = {}
        self._suspect = ""
        self._deaths = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: Channel | None = None
        self._note = -1
        self._tell_newest: TellNewest | None = None

    @property
    def pid(self) -> int | None:
        """The meter's; ``None`` while there is none."""
        return self._process.pid if self._process else None

    def watch(self, spec: WatchSpec) -> None:
        """Measure a workload; the same spec again changes nothing."""
        if self._specs.get(spec.key) == spec:
            return
        self._specs[spec.key] = spec
        self._struck.pop(spec.key, None)
        if self._channel is None:
            self._start()
        else:
            self._send({"watch": [spec.to_json()], "pause": self._pauses()})

    def hasten(self, tell_newest: TellNewest | None) -> None:
        """Report all workloads each time that they are read, until called with ``None``."""
        self._tell_newest = tell_newest
        self._send({"hasten": tell_newest is not None})

    def pause(self, key: str, *, paused: bool) -> None:
        """Let its probes rest while it is suspended, for it can't answer them."""
        if paused == (key in self._paused):
            return
        (self._paused.add if paused else self._paused.discard)(key)
        self._send({"pause": [[key, paused]]})

    def forget(self, key: str) -> None:
        """Stop measuring a workload."""
        self._struck.pop(key, None)
        self._paused.discard(key)
        spec = self._specs.pop(key, None)
        if spec is None:
            return
        self._send({"forget": [key]})
        if spec.runs_commands:
            kill_commands([Path(spec.run_dir)])

    def close(self) -> None:
        """End the meter."""
        self._specs.clear()
        self._struck.clear()
        self._end()

    def _start(self) -> None:
        pause_seconds = min(MAX_PAUSE_SECONDS, 2.0 ** (self._deaths - 1)) if self._deaths else 0.0
        self._note = os.memfd_create("wharfinger-meter-note", os.MFD_CLOEXEC)
        words = (self._note, self._report_seconds, self._hastened_seconds, pause_seconds)
        try:
            self._process, ours = start_peer(
                "wharfinger.monitor.meter", *words, pass_fds=(self._note,)
            )
        except OSError as error:
            log.warning("nothing is measured, the meter can't be started: %s", error.strerror)
            os.close(self._note)
            return
        ours.setblocking(False)
        self._channel = Channel(ours)
        self._add(ours.fileno(), self._look)
        sound = [spec for key, spec in self._specs.items() if key not in self._struck]
        specs = [spec.to_json() for spec in sound]
        hasten = self._tell_newest is not None
        self._send({"watch": specs, "hasten": hasten, "pause": self._pauses()})

    def _pauses(self) -> list[list[str | bool]]:
        return [[key, True] for key in sorted(self._paused)]

    def _send(self, message: Message) -> None:
        try:
            if self._channel is not None:
                self._channel.send(message)
        except OSError:
            # It hangs or is dead. Its socket will show it, and the next one gets all specs.
            if self._process is not None:
                self._process.kill()

    def _look(self) -> None:
        if self._channel is None:
            return
        try:
            message = self._channel.receive()
        except BlockingIOError:
            return
        if message is None:
            self._died()
            return
        self._deaths = 0
        if "newest" in message:
            if self._tell_newest is not None:
                pairs = msgspec.convert(message["newest"], list[tuple[Sample, Sample]])
                self._tell_newest(pairs)
            return
        if "health" in message:
            for key, word, reason in message["health"]:
                if key in self._specs and key not in self._paused:
                    self._tell_health(key, HealthNews(HealthWord(word), reason))
            return
        samples = msgspec.convert(message["samples"], list[Sample])
        watched = [sample for sample in samples if sample.key in self._specs]
        self._tell([*watched, *self._struck_samples()])

    def _struck_samples(self) -> list[Sample]:
        return [
            Sample(key, {}, dict.fromkeys(spec.wanted or (spec.main,), NoSignal(reason)))
            for key, reason in self._struck.items()
            if (spec := self._specs.get(key))
        ]

    def _died(self) -> None:
        note = os.pread(self._note, NOTE_BYTES, 0).rstrip(b"\0").decode(errors="replace")
        status = self._end()
        kill_commands(Path(spec.run_dir) for spec in self._specs.values() if spec.runs_commands)
        self._deaths += 1
        hung = status == -signal.SIGALRM
        # A kill may come at any workload; twice at the same is no coincidence.
        if note and (hung or note == self._suspect):
            late = f"reading it took longer than {HANG_SECONDS:g} s"
            self._struck[note] = late if hung else "its reader died"
        self._suspect = note
        log.warning("the meter ended with status %s at %s, another starts", status, note or "rest")
        self._tell(self._struck_samples())
        if self._specs:
            self._start()

    def _end(self) -> int | None:
        if self._channel is None or self._process is None:
            return None
        self._remove(self._channel.fileno())
        self._channel.close()
        process, self._process, self._channel = self._process, None, None
        # As its socket is closed it ends its commands and itself at once, unless it hangs.
        try:
            process.wait(timeout=1.0)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        os.close(self._note)
        return process.returncode
