"""The engine's side of profiling: a process for each plan, and an answer to each asking.

Only ``close`` waits. A plan that is stopped has its worker killed at once: every failure takes the
same way out, another process clears away, and the answer is reported when nothing is left. A
neighbor that falls below its target beside a source is reported to the worker, which withdraws it.
"""

import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.core.codec import decode_event
from wharfinger.engines.local.profiling.job import ProfilingJob
from wharfinger.engines.supervised.copying import why_not_copied, why_not_profiled
from wharfinger.engines.supervised.machine import Launcher
from wharfinger.engines.supervised.measuring import WorkloadMonitor
from wharfinger.engines.supervised.records import list_keys
from wharfinger.engines.supervised.run import LocalRun
from wharfinger.engines.supervised.watcher import Callback, Watcher
from wharfinger.errors import InvalidInput
from wharfinger.host.topology import cores_of
from wharfinger.model.interference import OF_A_CORE, SharedResource
from wharfinger.model.performance import (
    Performance,
    Quantity,
    Sample,
    achieved,
    as_performance,
    meets,
)
from wharfinger.model.profile import Entry, Measurements, Origin, ProfilingPlan
from wharfinger.model.workload import Workload
from wharfinger.monitor.messages import Channel, Message, start_peer
from wharfinger.monitor.spec import main_quantity

log = logging.getLogger(__name__)

Answer = ev.ProfilingFinished | ev.ProfilingFailed | ev.WorkloadProbed

STOPPED = "stopped"
READINGS, MIN_PATIENCE_SECONDS = 5, 2.0
"""How many a prober awaits one for: a workload that says nothing for longer can't be probed."""
PROBE_SECONDS = 180.0
"""For all sources of a probe together; then it is over."""
CAP_BYTES = 1 << 30
"""How much a copy may write before it is killed."""
LOG_CAP_BYTES = 1 << 20
MAX_ANSWERS = 256
"""Kept for a core that asks again."""
CLOSE_SECONDS = 10.0
"""For a worker to clear away when the engine is closed; then it is left to the next one."""
MOMENT_TOLERANCES, MIN_MOMENT_TOLERANCE = 2.0, 0.1
"""How far below its target a neighbor may be in a single second: that is noisier than what is
smoothed, and a withdrawal costs the measurement."""

PROFILES = ".profiles"
"""Within an engine's directory: where its plans have theirs."""
_MODULE = "wharfinger.engines.local.profiling.worker"


class _Process:
    """A worker, or one that clears away; ``ended`` is called at its end."""

    def __init__(self, watcher: Watcher, ended: Callback, process: subprocess.Popen[bytes]) -> None:
        self._watcher = watcher
        self._process, self.pid = process, process.pid
        self._pidfd = os.pidfd_open(process.pid)
        watcher.add(self._pidfd, ended)

    def kill(self) -> None:
        self._process.kill()

    def reap(self) -> int:
        """Its status, when it has ended; killed if it does not in time."""
        self._watcher.remove(self._pidfd)
        try:
            self._process.wait(timeout=CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
        os.close(self._pidfd)
        return self._process.wait()


@dataclass(slots=True)
class _Plan:
    """One plan under way; without a channel ``process`` clears away after its dead worker.

    ``below`` are the neighbors that were below their targets before the injection. ``probe`` is
    what was asked where it is no profiling, but a probe of what runs, or of a copy of that.
    """

    key: str
    server: str
    platform: str
    process: _Process
    channel: Channel | None
    answer: Answer | None = None
    stopped: bool = False
    injecting: bool = False
    everywhere: bool = False
    below: set[str] = field(default_factory=set)
    probe: act.ProbeWorkload | None = None

    def failed(self, reason: str) -> Answer:
        """What is answered where nothing came of it."""
        if self.probe is None:
            return ev.ProfilingFailed(self.key, reason)
        return _not_probed(self.probe, reason)

    @property
    def reads_workload(self) -> str:
        """Key of the workload beside which its sources rise; empty = beside a copy."""
        return self.probe.key if self.probe is not None and self.probe.plan.live else ""

    def take(self, report: ev.Event) -> None:
        """What its worker says in the end."""
        about = self.reads_workload or self.key
        if not isinstance(report, Answer) or report.key != about:
            return
        self.answer = report
        if self.probe is None or self.reads_workload:
            return
        if isinstance(report, ev.ProfilingFinished):
            scores = _as_observed(report.measurements, self.platform)
            self.answer = ev.WorkloadProbed(self.probe.key, self.probe.number, scores)
        elif isinstance(report, ev.ProfilingFailed):
            self.answer = _not_probed(self.probe, report.reason)


class ProfilingClient:
    """All plans of one engine, beside its ``runs``; ``measuring`` tells how these perform.

    Files are in ``.profiles`` within the engine's directory, made when it is needed.
    """

    def __init__(
        self,
        directory: Path,
        runs: Mapping[str, LocalRun],
        machine: Callable[[], Launcher],
        watcher: Watcher,
        measuring: WorkloadMonitor,
        tell: Callable[[ev.Report], None],
    ) -> None:
        self._directory = directory / PROFILES
        self._maxima_per_second: dict[str, float] = {}
        self._runs = runs
        self._machine = machine
        self._watcher = watcher
        self._measuring = measuring
        self._tell = tell
        self._plans: dict[str, _Plan] = {}
        self._answers: dict[str, Answer] = {}
        self._cleaning: _Process | None = None
        self._waiting: dict[str, act.ProfileWorkload] = {}
        self._fallen: set[str] = set()
        self._forgotten: set[str] = set()

    def open(self) -> None:
        """Have cleared away what an earlier engine left; new plans wait for it."""
        left = list_keys(self._directory) if self._directory.is_dir() else []
        if left:
            # Without it, each worker clears away what is of its own key.
            directories = (self._directory / key for key in left)
            self._cleaning = self._clear(self._cleaned, "earlier profiling", *directories)

    def close(self) -> None:
        """End what is under way; the core asks again for it."""
        self._waiting.clear()
        for plan in self._plans.values():
            self._close_channel(plan)
        for plan in self._plans.values():
            plan.process.reap()
        if self._cleaning is not None:
            self._cleaning.reap()
        self._cleaning = None
        self._plans.clear()
        self._answers.clear()
        self._forgotten.clear()

    def profile(self, action: act.ProfileWorkload) -> None:
        """Run a plan once; a key whose plan is over gets the same answer again."""
        key = action.key
        if key in self._plans or key in self._waiting:
            return
        if key in self._answers:
            self._tell(self._answers[key])
            return
        refusal = why_not_profiled(action)
        if refusal:
            self._settle(key, ev.ProfilingFailed(key, refusal))
        elif self._cleaning is not None:
            self._waiting[key] = action
        else:
            self._begin(action)

    def probe(self, action: act.ProbeWorkload) -> None:
        """Probe a run, or a new copy of it, once; asked again it goes on, or answers the same."""
        name = _name_of(action)
        if name in self._plans:
            return
        if name in self._answers:
            self._tell(self._answers[name])
            return
        self.end_probe(action.key)
        if refusal := self._why_not_probed(action):
            self._settle(name, _not_probed(action, refusal))
            return
        placement = self._runs[action.key].start.placement
        assert placement is not None
        plan = action.plan
        if plan.live:
            private = self._private(action)
            plan = replace(plan, sources=private, seconds=PROBE_SECONDS, server=placement.server)
        try:
            self._plans[name] = self._launch(name, action.workload, plan, action)
        except (OSError, InvalidInput, KeyError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            self._settle(name, _not_probed(action, f"no prober can be started: {reason}"))
            return
        self._measuring.hasten(self._take_newest)

    def end_probe(self, key: str) -> None:
        """End the probe of a run, if there is one; the answer is ``stopped``."""
        for plan in self._plans.values():
            if plan.probe is not None and plan.probe.key == key and plan.channel is not None:
                plan.stopped = True
                plan.process.kill()

    def _why_not_probed(self, action: act.ProbeWorkload) -> str:
        run = self._runs.get(action.key)
        if run is None or not run.running or run.start.placement is None:
            return "it does not run"
        plan, is_copied = action.plan, not action.plan.live
        if not 0 < plan.tolerance < 1:
            return f"a tolerance of {plan.tolerance}"
        if is_copied and (refusal := why_not_copied(action.workload)):
            return refusal
        here = plan.server if is_copied else run.start.placement.server
        if here not in self._machine().servers:
            return f"no server {here!r} here"
        others = self._servers_of_others(run)
        if any(plan.server == here for plan in self._plans.values()):
            return f"another plan is carried out on {here}"
        if is_copied:
            taken = here in (*others, run.start.placement.server)
            return f"{here} is not empty: what is there would slow the copy" if taken else ""
        if here in others:
            return "its server's cores are shared with neighbors: no source reaches it alone"
        if plan.sources and not self._private(action):
            return f"{' and '.join(plan.sources)} would reach the other servers of this machine"
        return ""

    def _private(self, action: act.ProbeWorkload) -> tuple[SharedResource, ...]:
        """Sources of a live plan that share nothing with others but its workload's CPUs."""
        run, sources = self._runs[action.key], action.plan.sources
        others = self._servers_of_others(run)
        if not others:
            return sources
        assert run.start.placement is not None
        servers = self._machine().servers
        own = cores_of(servers[run.start.placement.server].cpus)
        if any(own & cores_of(servers[other].cpus) for other in others if other in servers):
            return ()
        return tuple(source for source in sources if source in OF_A_CORE)

    def _servers_of_others(self, run: LocalRun) -> list[str]:
        """On which other workloads run."""
        return [
            other.start.placement.server
            for other in self._runs.values()
            if other is not run and other.running and other.start.placement is not None
        ]

    def stop(self, key: str) -> bool:
        """End a plan; whether there is, or was, one of that key. The answer is ``stopped``."""
        if self._waiting.pop(key, None) is not None:
            self._settle(key, ev.ProfilingFailed(key, STOPPED))
            return True
        if (plan := self._plans.get(key)) is not None:
            plan.stopped = True
            if plan.channel is not None:
                plan.process.kill()
            return True
        if key in self._answers:
            self._tell(self._answers[key])
        return key in self._answers

    def forget(self, key: str) -> None:
        """Drop its answers; what is under way ends, and what it would tell is dropped, too."""
        self._waiting.pop(key, None)
        if (plan := self._plans.get(key)) is not None:
            self._forgotten.add(key)
            plan.stopped = True
            if plan.channel is not None:
                plan.process.kill()
        self._answers.pop(key, None)
        for name in [n for n, a in self._answers.items() if a.key == key]:
            del self._answers[name]

    def _begin(self, action: act.ProfileWorkload) -> None:
        try:
            self._plans[action.key] = self._launch(action.key, action.workload, action.plan)
        except (OSError, InvalidInput, KeyError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            key = action.key
            self._settle(key, ev.ProfilingFailed(key, f"no profiler can be started: {reason}"))
            return
        self._measuring.hasten(self._take_newest)

    def _launch(
        self,
        key: str,
        workload: Workload,
        asked: ProfilingPlan,
        probe: act.ProbeWorkload | None = None,
    ) -> _Plan:
        server = asked.server
        job = ProfilingJob(
            key,
            workload,
            asked,
            machine=self._machine().only(server, log_cap_bytes=LOG_CAP_BYTES),
            directory=self._directory / key,
            cap_bytes=CAP_BYTES,
            maxima_per_second=self._maxima_per_second,
        )
        worker, ours = start_peer(_MODULE)
        try:
            process = _Process(self._watcher, partial(self._ended, key), worker)
        except OSError:
            ours.close()  # It ends with its socket.
            raise
        channel = Channel(ours)
        with suppress(OSError):  # Dead already: its end will be seen.
            what: Message = {}
            if probe and probe.plan.live:
                patience = max(MIN_PATIENCE_SECONDS, READINGS * self._measuring.hastened_seconds)
                what = {"probe": [probe.key, probe.number, patience]}
            channel.send({"job": job.encode(), **what})
        ours.setblocking(False)
        platform = job.server.server.platform.name
        plan = _Plan(key, server, platform, process, channel, probe=probe)
        self._watcher.add(channel.fileno(), partial(self._look, plan))
        return plan

    def _look(self, plan: _Plan) -> None:
        while plan.channel is not None:
            try:
                message = plan.channel.receive()
            except BlockingIOError:
                return
            if message is None:
                self._close_channel(plan)
                return
            if "answer" in message:
                kind, payload = message["answer"]
                plan.take(decode_event(kind, payload.encode()))
            if "maximum" in message:
                where, maximum = message["maximum"]
                self._maxima_per_second[where] = maximum
            if "injecting" in message:
                plan.injecting = message["injecting"]
                plan.everywhere = message.get("everywhere", False)
                plan.below = set(self._fallen)

    def _ended(self, key: str) -> None:
        plan = self._plans[key]
        self._look(plan)
        self._close_channel(plan)
        plan.injecting = False
        status = plan.process.reap()
        if plan.answer is None:
            plan.answer = plan.failed(STOPPED if plan.stopped else _why(status))
            clearing = self._clear(partial(self._ended, key), key, self._directory / key)
            if clearing is not None:
                plan.process = clearing
                return
        del self._plans[key]
        if not self._plans:
            self._measuring.hasten(None)
            self._fallen.clear()
        self._settle(key, plan.answer)

    def _close_channel(self, plan: _Plan) -> None:
        if plan.channel is not None:
            self._watcher.remove(plan.channel.fileno())
            plan.channel.close()
            plan.channel = None

    def _clear(self, ended: Callback, what: str, *directories: Path) -> _Process | None:
        """A process that clears away what dead workers left; ``None`` = there can be none."""
        try:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", _MODULE, "--clear", *directories],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                cwd="/",
            )
            return _Process(self._watcher, ended, process)
        except OSError as error:
            log.warning("%s: what it left stays: %s", what, error.strerror)
            return None

    def _cleaned(self) -> None:
        if self._cleaning is not None:
            self._cleaning.reap()
            self._cleaning = None
        waiting, self._waiting = self._waiting, {}
        for action in waiting.values():
            self._begin(action)

    def _settle(self, name: str, answer: Answer) -> None:
        if name in self._forgotten:
            self._forgotten.discard(name)
            return
        self._answers[name] = answer
        while len(self._answers) > MAX_ANSWERS:
            del self._answers[next(iter(self._answers))]
        self._tell(answer)

    def _take_newest(self, samples: Sequence[tuple[Sample, Sample]]) -> None:
        for newest, smoothed in samples:
            run = self._runs.get(newest.key)
            if run is None:
                continue
            self._tell_prober(run, newest, smoothed)
            if _is_below(run, newest, of_a_moment=True) or _is_below(run, smoothed):
                self._fallen.add(run.key)
                self._warn(run)
            else:
                self._fallen.discard(run.key)

    def _tell_prober(self, run: LocalRun, newest: Sample, smoothed: Sample) -> None:
        for plan in self._plans.values():
            if plan.probe is None or plan.reads_workload != run.key or plan.channel is None:
                continue
            quantity = main_quantity(plan.probe.workload)
            reading = newest.readings.get(quantity)
            used = newest.readings.get(Quantity.CPU) or smoothed.readings.get(Quantity.CPU)
            if reading is None or reading.value <= 0:
                continue
            told = {"performance": as_performance(quantity, reading.value)}
            with suppress(OSError):  # Dead, and its source with it.
                plan.channel.send({**told, "used_cpus": used.value if used else None})

    def _warn(self, run: LocalRun) -> None:
        server = run.start.placement.server if run.start.placement else ""
        name = run.workload.name if run.workload else run.key
        for plan in self._plans.values():
            if not plan.injecting or plan.channel is None or run.key in plan.below:
                continue
            if plan.everywhere or server == plan.server:
                plan.injecting = False
                with suppress(OSError):  # Dead, and its source with it.
                    plan.channel.send({"fallen": name})


def _name_of(action: act.ProbeWorkload) -> str:
    return f"{action.key}.probe{action.number}"


def _not_probed(action: act.ProbeWorkload, reason: str) -> ev.WorkloadProbed:
    return ev.WorkloadProbed(action.key, action.number, Measurements(), reason)


def _as_observed(measured: Measurements, platform: str) -> Measurements:
    """The scores of a copy of what runs, as of now; its own performance is another's."""
    return Measurements(
        tolerated=_observed(measured.tolerated),
        caused=_observed(measured.caused),
        silent=measured.silent,
        platform=platform,
    )


def _observed(entries: Mapping[SharedResource, Entry]) -> dict[SharedResource, Entry]:
    return {source: replace(entry, origin=Origin.OBSERVED) for source, entry in entries.items()}


def _is_below(run: LocalRun, sample: Sample, *, of_a_moment: bool = False) -> bool:
    workload = run.workload
    if workload is None or workload.target is None:
        return False
    tolerance = workload.tolerance
    if of_a_moment:
        tolerance = max(MIN_MOMENT_TOLERANCE, MOMENT_TOLERANCES * tolerance)
    # When it was submitted is the core's to know; since its start it has had this long at least.
    performance = achieved(Performance(time.time(), sample.readings), run.started_at_seconds)
    return meets(workload.target, tolerance, performance) is False


def _why(status: int) -> str:
    if status == -signal.SIGALRM:
        return "its profiler took too long and was killed"
    if status < 0:
        return f"its profiler was killed by {signal.Signals(-status).name}"
    return f"its profiler ended with status {status}"
