"""The meter: one process that reads how all of a manager's workloads perform.

``client`` starts it and talks to it over a socket. When it hangs, an alarm that is reset at every
turn kills it, and a note says which workload it was reading.
"""

import contextlib
import os
import select
import signal
import sys
import time
from collections.abc import Iterable

import msgspec

from wharfinger.monitor.messages import Channel, attach
from wharfinger.monitor.spec import WatchSpec
from wharfinger.monitor.watch import Watch

PERIOD_SECONDS = 1.0
HANG_SECONDS = 10.0
"""A turn that takes longer is taken for a hang."""
NOTE_BYTES = 256

HealthList = list[tuple[str, *tuple[str, ...]]]
"""Key, word and reason of each ``HealthNews``."""


class Meter:
    """The loop; ``note`` is a descriptor of the note that names the workload that is read now.

    ``hastened_seconds`` are between two readings of a workload while it is hastened.
    """

    def __init__(
        self, channel: Channel, note: int, report_seconds: float, hastened_seconds: float
    ) -> None:
        self._channel = channel
        self._note = note
        self._report_seconds = report_seconds
        self._hastened_seconds = hastened_seconds
        self._watches: dict[str, Watch] = {}
        self._next_report = time.monotonic() + report_seconds
        self._hastened = False

    def run(self) -> None:
        """Sample until the manager is gone."""
        poller = select.poll()
        poller.register(self._channel.fileno(), select.POLLIN)
        due = time.monotonic()
        while True:
            # With nothing to watch it can't hang, and need not wake.
            signal.setitimer(signal.ITIMER_REAL, HANG_SECONDS if self._watches else 0)
            wake = min([due, *(watch.health.due for watch in self._watches.values())])
            wait_ms = max(0.0, wake - time.monotonic()) * 1000 if self._watches else None
            if poller.poll(wait_ms) and not self._obey():
                break
            self._look_at_health()
            now = time.monotonic()
            if self._watches and now >= due:
                self._turn(now)
                # On the second's grid; missed turns are skipped.
                due = max(due + self._period_seconds, now + self._period_seconds / 2)
        for watch in self._watches.values():
            watch.close()

    @property
    def _period_seconds(self) -> float:
        return self._hastened_seconds if self._hastened else PERIOD_SECONDS

    def _obey(self) -> bool:
        message = self._channel.receive()
        if message is None:
            return False
        self._hastened = message.get("hasten", self._hastened)
        for key in message.get("forget", ()):
            self._forget(key)
        for text in message.get("watch", ()):
            spec = WatchSpec.from_json(text)
            self._forget(spec.key)
            self._write_note(spec.key)
            self._watches[spec.key] = Watch(spec)
            self._write_note("")
        for key, paused in message.get("pause", ()):
            if key in self._watches:
                self._watches[key].health.pause(paused=paused)
        return True

    def _forget(self, key: str) -> None:
        watch = self._watches.pop(key, None)
        if watch is not None:
            watch.close()

    def _look_at_health(self) -> None:
        news: HealthList = []
        now = time.monotonic()
        due = [(key, watch) for key, watch in self._watches.items() if now >= watch.health.due]
        for key, watch in due:
            self._write_note(key)
            news += [(key, *each) for each in watch.look_at_health()]
        if due:
            self._write_note("")
        self._tell_health(news)

    def _tell_health(self, news: HealthList) -> None:
        if news:
            self._channel.send({"health": news})

    def _turn(self, now: float) -> None:
        silent: HealthList = []
        period, read = self._period_seconds, []
        for key, watch in self._watches.items():
            if now >= watch.due:
                # What is to be read less often than usual is so while it is hastened, too.
                every = watch.spec.every_seconds
                watch.due = now + (every if every > PERIOD_SECONDS else period) - period / 2
                self._write_note(key)
                watch.sample()
                read.append(watch)
                silent += [(key, *each) for each in watch.look_at_load()]
        self._write_note("")
        self._tell_health(silent)
        if self._hastened and read:
            both = [(watch.newest(), watch.report()) for watch in read]
            self._channel.send({"newest": msgspec.to_builtins(both)})
        if now >= self._next_report:
            self._next_report = now + self._report_seconds
            self._tell(self._watches.values())
        else:
            self._tell([watch for watch in self._watches.values() if watch.is_news])

    def _tell(self, watches: Iterable[Watch]) -> None:
        samples = []
        for watch in watches:
            samples.append(watch.report())
            watch.note_report()
        if samples:
            self._channel.send({"samples": msgspec.to_builtins(samples)})

    def _write_note(self, key: str) -> None:
        os.pwrite(self._note, key.encode().ljust(NOTE_BYTES, b"\0")[:NOTE_BYTES], 0)


def main(
    descriptor: str, parent: str, note: str, report_seconds: str, hastened_seconds: str, pause: str
) -> None:
    """Begin, as ``client`` calls it."""
    channel = attach(descriptor, parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the manager
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    time.sleep(float(pause))  # a back-off after another meter's death
    with contextlib.suppress(BrokenPipeError):
        Meter(channel, int(note), float(report_seconds), float(hastened_seconds)).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
