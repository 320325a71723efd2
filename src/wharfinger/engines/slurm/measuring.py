"""How workloads on nodes perform, and whether they are ready and alive: asked from this host.

Output is read in run directories on the shared directory, endpoints and ports at the nodes'
addresses, CPU time from Slurm's accounting. Load generators and commands run on this host. Without
a shared directory nothing is measured.
"""

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.engines.base import LogChunk
from wharfinger.engines.slurm.start import SlurmStart
from wharfinger.engines.supervised.loads import Loads
from wharfinger.engines.supervised.machine import Launcher, raise_open_files
from wharfinger.engines.supervised.measuring import WorkloadMonitor
from wharfinger.engines.supervised.watcher import Watcher
from wharfinger.errors import EngineFault
from wharfinger.host.cgroups import discover
from wharfinger.host.topology import discover_servers
from wharfinger.model.performance import NoSignal, Quantity, Reading, Sample
from wharfinger.model.workload import Workload
from wharfinger.monitor.client import HASTENED_SECONDS, REPORT_SECONDS
from wharfinger.monitor.elsewhere import address_from_here, seen_from_here
from wharfinger.monitor.smoothing import Counter
from wharfinger.monitor.spec import WatchSpec, main_quantity, wanted_quantities

log = logging.getLogger(__name__)

LOG_CAP_BYTES = 1 << 20
"""Of each load generator's output, what is kept."""
_HERE = "manager"
"""The one server of load generators: this host."""


class CpuUse:
    """CPUs that a job uses, by a count that Slurm renews at a pace of its own, in whole seconds.

    Only a count that has changed tells anything, and the first is of no known time: nobody saw
    what came before.

    >>> use = CpuUse()
    >>> for at, seconds in ((0, 7), (15, 7), (30, 22), (45, 22), (60, 37)):
    ...     use.observe(at, seconds)
    >>> use.cpus(60)
    0.5
    """

    def __init__(self) -> None:
        self._counter = Counter()
        self._newest: float | None = None

    def observe(self, now: float, cpu_seconds: float) -> None:
        """Take in the count."""
        before, self._newest = self._newest, cpu_seconds
        if before is not None and cpu_seconds != before:
            self._counter.observe(now, cpu_seconds)

    def cpus(self, now: float) -> float | None:
        """What it uses now; ``None`` = not known, or not any more."""
        level = self._counter.rate
        return level.value if level.is_fresh(now) else None


class MeasuredStart:
    """A start on a node, for ``supervised.measuring``.

    Args:
        start: As the engine remembers it.
        run_dir: On the shared directory.
        address: Of its node.
        stop: Asks to stop it, as not alive.
    """

    load_server = _HERE

    def __init__(
        self,
        start: SlurmStart,
        run_dir: Path,
        address: str,
        stop: Callable[[str, float], None],
    ) -> None:
        self.key = start.key
        self.run_dir = run_dir
        self.address = address
        self.workload: Workload | None = None
        self.used = CpuUse()
        self._start = start
        self._stop = stop
        self._stopped = False

    @property
    def running(self) -> bool:
        """Whether its program has begun and has not ended, as far as is known."""
        return self._start.running

    @property
    def server(self) -> str:
        """Its node."""
        placements = self._start.note.placements
        return placements[0].server if placements else ""

    def where(self) -> WatchSpec:
        """Its run directory, and its node's address."""
        return WatchSpec(self.key, str(self.run_dir), host=self.address)

    def readings(self) -> dict[Quantity, Reading]:
        """The CPUs that it uses, as far as Slurm measures that."""
        cpus = self.used.cpus(time.monotonic())
        if cpus is None:
            return {}
        return {Quantity.CPU: Reading(cpus, "CPU time (Slurm's accounting)", trusted=False)}

    def stop_as_not_alive(self, grace_seconds: float) -> None:
        """Ask for that, once: it is tried until Slurm answers."""
        if not self._stopped and not self._start.stop_asked:
            self._stop(self.key, grace_seconds)
            self._stopped = True


class NodeMonitor:
    """Measures one engine's starts.

    Args:
        starts: Of the engine, by key.
        directory: On this host; has the records of load generators.
        identity: Names this engine's cgroups on this host.
        run_dir: Where a start's records are.
        address_of: A node's address, by its name.
        stop: Asks to stop a start that is not alive.
        watcher: The engine's.
        tell: Takes reports.
    """

    def __init__(
        self,
        starts: Mapping[str, SlurmStart],
        directory: Path,
        identity: str,
        run_dir: Callable[[str], Path | None],
        address_of: Callable[[str], str],
        stop: Callable[[str, float], None],
        watcher: Watcher,
        tell: Callable[[ev.Report], None],
    ) -> None:
        self._starts = starts
        self._identity = identity
        self._run_dir = run_dir
        self._tell = tell
        self._address_of = address_of
        self._stop = stop
        self._launcher: Launcher | None = None
        self._runs: dict[str, MeasuredStart] = {}
        self._waiting: deque[act.EngineAction] = deque()
        self._monitor = WorkloadMonitor(
            self._runs,
            Loads(directory, self._machine, watcher),
            watcher,
            tell,
            report_seconds=REPORT_SECONDS,
            hastened_seconds=HASTENED_SECONDS,
        )

    def adopt(self) -> None:
        """Take over what an earlier engine left of measuring on this host."""
        self._monitor.adopt(
            {key: start.live for key, start in self._starts.items()}, self._run_dirs()
        )

    def _run_dirs(self) -> Iterator[Path]:
        for key in self._starts:
            if (run_dir := self._run_dir(key)) is not None:
                yield run_dir

    def take(self, action: act.EngineAction) -> bool:
        """Have an action carried out by ``work``, as far as it concerns measuring; whether so."""
        concerns = isinstance(
            action,
            act.MeasureWorkload
            | act.SuspendWorkload
            | act.ResumeWorkload
            | act.StopWorkload
            | act.ForgetWorkload,
        )
        if concerns:
            self._waiting.append(action)
        return concerns

    def work(self) -> None:
        """Carry out what waits; processes are started here, which takes milliseconds."""
        while self._waiting:
            match self._waiting.popleft():
                case act.MeasureWorkload() as action:
                    self._measure(action)
                # What is asked to stop answers no more, and is neither unready nor dead.
                case act.SuspendWorkload(key=key) | act.StopWorkload(key=key):
                    self._monitor.pause(key, paused=True)
                case act.ResumeWorkload(key=key):
                    self._monitor.pause(key, paused=False)
                case act.ForgetWorkload(key=key):
                    self._monitor.forget(key)

    def _measure(self, action: act.MeasureWorkload) -> None:
        start = self._starts.get(action.key)
        if start is None or not start.running or not start.note.placements:
            return
        run_dir = self._run_dir(action.key)
        if run_dir is None:
            self._tell_unmeasured(action, start.note.placements[0].server)
            return
        run = self._runs.get(action.key)
        if run is None:
            address = address_from_here(self._address_of(start.note.placements[0].server))
            run = MeasuredStart(start, run_dir, address, self._stop)
            self._runs[action.key] = run
        workload = seen_from_here(action.workload, run.address)
        self._monitor.measure(act.MeasureWorkload(action.key, workload))

    def _tell_unmeasured(self, action: act.MeasureWorkload, server: str) -> None:
        # Its output is where Slurm puts it, and what its user wrote in a comment is neither run nor
        # read with this manager's rights.
        wanted = wanted_quantities(action.workload) or (main_quantity(action.workload),)
        silent = dict.fromkeys(wanted, NoSignal("a user's own job is not measured"))
        self._tell(ev.ServerMeasured(server, (Sample(action.key, {}, silent),)))

    def observe_usage(self, usage: Mapping[str, tuple[float, int]]) -> None:
        """Take in CPU seconds (and peak memory) by key, as of now."""
        now = time.monotonic()
        for key, (cpu_seconds, _) in usage.items():
            if key in self._runs:
                self._runs[key].used.observe(now, cpu_seconds)

    def ended(self, key: str) -> None:
        """A start has ended: measure it no more."""
        self._monitor.ended(key)
        self._runs.pop(key, None)

    def read_load(self, key: str, offset: int, limit_bytes: int) -> LogChunk:
        """Output of its load generator; raises ``NotFound`` where none has run."""
        return self._monitor.read_load(key, offset, limit_bytes)

    def close(self) -> None:
        """End the meter; load generators go on as their services do."""
        self._monitor.close()
        self._waiting.clear()
        self._runs.clear()
        if self._launcher is not None:
            with suppress(EngineFault):  # Generators that go on have their groups below it.
                self._launcher.control.close()
            self._launcher = None

    def _machine(self) -> Launcher:
        """This host, once there is a load generator; raises ``EngineFault`` or ``InvalidInput``."""
        if self._launcher is None:
            (here,) = discover_servers("1")
            control = discover(self._identity, cpu_count=len(here.cpus))
            self._launcher = Launcher({_HERE: here}, control, raise_open_files(), LOG_CAP_BYTES)
        return self._launcher
