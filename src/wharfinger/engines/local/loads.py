"""Load generators: each runs beside its service, under a supervisor and in cgroups of its own.

One belongs to its service's start: it begins once that is measured, is started again whenever it
comes to its end, and is killed when the service ends. It outlives a manager as workloads do; the
next one finds its run directory, ``.loads/KEY.N``, which no key of the core can be.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.engines.local.records import (
    StartRecord,
    create_run,
    list_keys,
    read_start,
    remove_run,
)
from wharfinger.engines.local.run import LocalRun
from wharfinger.engines.local.start import groups_of
from wharfinger.engines.local.watcher import Watcher
from wharfinger.errors import WharfingerError
from wharfinger.host.run_dir import read_output, read_run
from wharfinger.model.allocation import Allocation, Placement
from wharfinger.model.workload import Workload

log = logging.getLogger(__name__)

LOAD_ALLOCATION = Allocation(1000, 512 << 20)
"""One CPU and 512 MiB: what drives a load must not be what limits it."""
BRIEF_SECONDS = 2.0
"""One that ends sooner is started again only with the next samples, not at once."""

LAST_WORDS_BYTES = 4096
MAX_WORDS = 120
"""Characters of a generator's last line that are shown."""

Launch = Callable[[LocalRun, act.StartWorkload], None]


@dataclass(slots=True)
class _Load:
    """One service's generator.

    ``run`` is ``None`` between two runs; ``workload`` until the core has named it. ``former`` is
    kept until the next one ends: most tell their numbers with their last words, which the meter
    reads when its time has come. ``trouble`` says how the last one failed.
    """

    workload: Workload | None
    server: str
    number: int
    run: LocalRun | None = None
    former: LocalRun | None = None
    began: float = 0.0
    trouble: str = ""


class Loads:
    """All load generators of one engine.

    Args:
        directory: The engine's; theirs is ``.loads`` within, made when it is needed.
        watcher: Tells of their ends.
        plan: Cgroups of a run of this server and key, as a start record has them.
        launch: Starts a run, as the engine starts workloads.
    """

    def __init__(
        self,
        directory: Path,
        watcher: Watcher,
        plan: Callable[[Placement, str], StartRecord],
        launch: Launch,
    ) -> None:
        self._directory = directory / ".loads"
        self._watcher = watcher
        self._plan = plan
        self._launch = launch
        self._loads: dict[str, _Load] = {}
        self._ending: dict[str, LocalRun] = {}

    def prefix(self, key: str) -> Path:
        """Beginning of the names of a service's generator's run directories."""
        return self._directory / f"{key}."

    def adopt(self, is_running: Callable[[str], bool]) -> None:
        """Take over what an earlier engine left; what serves no workload any more is ended."""
        for name in list_keys(self._directory) if self._directory.is_dir() else ():
            key, _, number = name.rpartition(".")
            start = read_start(self._directory / name)
            if start is None or start.placement is None or not number.isdecimal():
                continue
            run = self._make_run(name, start)
            run.adopt(read_run(run.run_dir))
            if run.settled is not None or not is_running(key):
                self._drop(run)
                continue
            # Which program it is shows when the core asks for the measuring.
            load = _Load(None, start.placement.server, int(number), run, began=time.monotonic())
            self._loads[key] = load

    def keep(self, service: LocalRun, workload: Workload) -> None:
        """Let a service have the generator that its manifest names, or none."""
        placement = service.start.placement
        if workload.measure.load_command is None or placement is None:
            self.end(service.key)
            return
        load = self._loads.get(service.key)
        if load is None:
            load = _Load(workload, placement.server, 0)
            self._loads[service.key] = load
        elif load.workload is not None and _command(load.workload) != _command(workload):
            if load.run is not None:
                self._drop(load.run)
            load.run, load.trouble = None, ""
        load.workload = workload
        if load.run is None:
            self._start(service.key, load)

    def end(self, key: str) -> None:
        """Its service has ended, and so does it."""
        load = self._loads.pop(key, None)
        for run in (load.former, load.run) if load is not None else ():
            if run is not None:
                self._drop(run)

    def trouble(self, key: str) -> str:
        """How a service's generator failed; empty where it did not."""
        load = self._loads.get(key)
        return load.trouble if load is not None else ""

    def revive(self) -> None:
        """Start those again that have ended; called with each lot of samples."""
        for key, load in self._loads.items():
            if load.run is None:
                self._start(key, load)

    def close(self) -> None:
        """Watch them no more; they go on."""
        for load in self._loads.values():
            for run in (load.former, load.run):
                if run is not None:
                    run.let_go()
        for run in self._ending.values():
            run.let_go()
        self._loads.clear()
        self._ending.clear()

    def _start(self, key: str, load: _Load) -> None:
        if load.workload is None:
            return
        load.number += 1
        load.began = time.monotonic()
        name = f"{key}.{load.number}"
        placement = Placement(load.server, LOAD_ALLOCATION)
        program = replace(load.workload.run, command=_command(load.workload))
        action = act.StartWorkload(name, replace(load.workload, run=program), (placement,))
        try:
            self._directory.mkdir(mode=0o700, exist_ok=True)
            start = self._plan(placement, name)
            create_run(self._directory, name, start)
            load.run = self._make_run(name, start)
            load.run.workload = action.workload
            self._launch(load.run, action)
        except (WharfingerError, OSError, KeyError) as error:
            log.warning("%s: its load generator can't be started: %s", key, error)
            load.trouble = f"the load generator can't be started: {error}"
            if load.run is not None:
                load.run.fail_to_start(str(error), retryable=True)
            load.run = None

    def _make_run(self, name: str, start: StartRecord) -> LocalRun:
        group = groups_of(start.groups, name)
        run_dir = self._directory / name

        def tell(report: ev.Report) -> None:
            if isinstance(report, ev.WorkloadFinished | ev.WorkloadVanished | ev.StartFailed):
                self._ended(name, report)

        return LocalRun(name, run_dir, start, group, self._watcher, tell)

    def _ended(
        self, name: str, end: ev.WorkloadFinished | ev.WorkloadVanished | ev.StartFailed
    ) -> None:
        """One run is over: clear away the one before, and go on with the next."""
        gone = self._ending.pop(name, None)
        if gone is not None:
            self._clear(gone)
            return
        key = name.rpartition(".")[0]
        load = self._loads.get(key)
        if load is None or load.run is None or load.run.key != name:
            return
        if load.former is not None:
            self._clear(load.former)
        load.former, load.run = load.run, None
        load.trouble = _failure(end, load.former)
        brief = time.monotonic() - load.began < BRIEF_SECONDS
        if not brief:
            self._start(key, load)

    def _drop(self, run: LocalRun) -> None:
        if run.settled is not None:
            self._clear(run)
            return
        self._ending[run.key] = run
        run.stop(0.0)

    def _clear(self, run: LocalRun) -> None:
        run.remove_groups()
        run.let_go()
        remove_run(run.run_dir)
        try:
            self._directory.rmdir()
        except OSError:
            return  # Others are still there.


def _failure(end: ev.WorkloadFinished | ev.WorkloadVanished | ev.StartFailed, run: LocalRun) -> str:
    """How a generator failed, with its last words; empty where it came to a good end."""
    if not isinstance(end, ev.WorkloadFinished):
        return f"the load generator: {end.reason}"
    if end.exit_code == 0:
        return ""
    how = (
        f"ended with exit status {end.exit_code}"
        if end.signal is None
        else f"was ended by signal {end.signal}"
    )
    words = _last_line(run)
    return f"the load generator {how}" + (f": {words}" if words else " and printed nothing")


def _last_line(run: LocalRun) -> str:
    try:
        data, _ = read_output(run.run_dir, -LAST_WORDS_BYTES, LAST_WORDS_BYTES)
    except (WharfingerError, OSError):
        return ""
    lines = data.decode(errors="replace").split("\n")
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return "".join(c if c.isprintable() else " " for c in last)[:MAX_WORDS]


def _command(workload: Workload) -> tuple[str, ...]:
    return workload.measure.load_command or ()
