"""Suspensions are leases: each ends by itself when the engine that wants it is gone."""

import logging
from collections.abc import Mapping

from wharfinger.engines.supervised.run import LocalRun
from wharfinger.engines.supervised.watcher import Watcher
from wharfinger.errors import NotFound, OutOfSpace
from wharfinger.host.descriptors import Alarm
from wharfinger.host.run_control import RENEW_SECONDS

log = logging.getLogger(__name__)


class SuspensionLeases:
    """Renews the suspensions of one engine's runs by the clock, for as long as it is open."""

    def __init__(self, runs: Mapping[str, LocalRun], watcher: Watcher) -> None:
        self._runs = runs
        self._watcher = watcher
        self._alarm: Alarm | None = None

    def open(self) -> None:
        """Begin to renew."""
        self._alarm = Alarm()
        self._watcher.add(self._alarm.fileno(), self._renew)
        self._alarm.set(RENEW_SECONDS)

    def close(self) -> None:
        """Renew no more."""
        if self._alarm is not None:
            self._alarm.close()
            self._alarm = None

    def _renew(self) -> None:
        if self._alarm is None:
            return
        self._alarm.drain()
        self._alarm.set(RENEW_SECONDS)
        for run in self._runs.values():
            if run.suspended and run.settled is None:
                try:
                    run.renew_suspension()
                except (NotFound, OutOfSpace) as error:
                    log.warning("%s goes on, though it is to be suspended: %s", run.key, error)
