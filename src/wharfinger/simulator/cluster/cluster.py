"""The simulated cluster: the effects of an engine's actions, as events in the loop.

``simulator.engine`` is the engine on it. Reports go to one listener; a new one is told all.
"""

from dataclasses import replace
from functools import cached_property
from math import inf, log1p

from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.model.allocation import Placement
from wharfinger.model.ends import NODE_FAILURE
from wharfinger.model.platform import Server
from wharfinger.model.view import Resize, WorkloadLimits
from wharfinger.model.workload import Run as Command
from wharfinger.model.workload import Workload, WorkloadType
from wharfinger.simulator.cluster.probing_runs import ProbesOfRunning
from wharfinger.simulator.cluster.profiling_runs import ProfilingRuns
from wharfinger.simulator.cluster.runs import Account, SimulatedRun, State
from wharfinger.simulator.cluster.servers import ENDS, Listener, SimulatedServers
from wharfinger.simulator.scenario.jobs import Job

STOPPED_EARLY = "stopped before it started"


class SimulatedCluster(SimulatedServers):
    """Servers and what runs on them; it outlives the engines that are opened on it."""

    name = "simulated"

    @cached_property
    def profiling(self) -> ProfilingRuns:
        """Runs of profiling plans."""
        return ProfilingRuns(self)

    @cached_property
    def probing(self) -> ProbesOfRunning:
        """Probes of what runs."""
        return ProbesOfRunning(self)

    def put_server(self, server: Server) -> None:
        """A server comes, or is back."""
        self._add(server)
        self.tell(ev.ServerReported(server))

    def change_servers(self, *servers: Server) -> None:
        """Servers that are there are as these say now, e.g. with more that others hold.

        What runs there goes on at its speed: what others do is not simulated.
        """
        for server in servers:
            self._add(server)
        self.tell(ev.ServersReported(servers))

    def occupy(self, name: str, cpu_millicpus: int, memory_bytes: int) -> None:
        """From now on work of others holds this much of a server; what runs there goes on."""
        server = self.machines[name].server
        held = replace(server, others_cpu_millicpus=cpu_millicpus, others_memory_bytes=memory_bytes)
        self.change_servers(held)

    def remove_server(
        self, name: str, reason: str = "it failed", *, rest_survives: bool = False
    ) -> None:
        """A server is gone, with all that runs there; ``rest_survives``: only with those parts."""
        machine = self.machines.pop(name, None)
        if machine is None:
            return
        self.ledger.move(self.now, machine, -1)
        machine.up = False
        self.profiling.server_left(machine, f"server {name} left")
        self.probing.server_left(machine, f"server {name} left")
        for run in dict.fromkeys(part.run for part in machine.parts if part.run.killed is None):
            if rest_survives and len(run.placements) > 1:
                self.lose_part(run.key, name, f"{NODE_FAILURE}: server {name} left")
            else:
                self._end(run, ev.WorkloadVanished(run.key, f"server {name} left"))
        self.tell(ev.ServerLeft(name, reason))

    def evict(self, key: str, reason: str = "preempted") -> None:
        """The engine takes a start off its servers; ``reason`` as in ``WorkloadEvicted``."""
        run = self._runs.get(key)
        if run is not None and run.job.application:
            self._end(run, ev.WorkloadEvicted(key, reason))

    def lose_part(self, key: str, server: str, reason: str = NODE_FAILURE) -> None:
        """A start is gone from one of its servers, and goes on on the others, if there are any."""
        run = self._runs.get(key)
        if run is None or run.end is not None:
            return
        lost = tuple(p for p in run.placements if p.server == server)
        left = tuple(p for p in run.placements if p.server != server)
        if not left:
            self.evict(key, reason)
        elif lost:
            run.lost = ev.PlacementsLost(key, lost, reason)
            run.resizes += 1  # A resize under way is overtaken.
            run.placements = left
            if run.state is not State.STARTING:
                run.settle(self.now)
                self.leave(run)
                self.settle_in(run, left)
            self.tell(run.lost)

    def offer(self, workload: Workload, handle: str, limits: WorkloadLimits | None = None) -> None:
        """A user hands a workload in to the engine, which holds it until it is let go."""
        offered = self.offers[handle] = ev.WorkloadOffered(workload, handle, limits)
        self.tell(offered)

    def withdraw(self, handle: str, reason: str = "its user cancelled it") -> None:
        """Its user takes it back, if it has not been let go."""
        offered = self.offers.pop(handle, None)
        if offered is not None:
            self.tell(ev.OfferWithdrawn(offered.workload.name, reason))

    # --- what an engine calls -------------------------------------------------------------

    def attach(self, listener: Listener) -> None:
        """Tell it all that is known, and from now on what happens; it alone."""
        self._listener = listener
        for machine in self.machines.values():
            listener(ev.ServerReported(machine.server))
        for run in self._runs.values():
            self._tell_again(run)
        for offered in self.offers.values():
            listener(offered)
        listener(ev.EngineSynced(tuple(self._runs), tuple(self.machines), tuple(self.offers)))

    def detach(self, listener: Listener) -> None:
        """Tell it nothing more; what runs goes on, but for profiling."""
        if self._listener == listener:
            self._listener = None
            self.profiling.clear()
            self.probing.clear()

    def perform(self, action: act.EngineAction) -> None:
        """Begin to carry an action out."""
        match action:
            case act.StartWorkload():
                self._start(action)
            case act.StopWorkload(key=key):
                self._stop(key)
            case act.ResizeAllocation(key=key, placements=placements):
                self._resize(key, placements)
            case act.SuspendWorkload(key=key):
                self._suspend(key, State.RUNNING, State.SUSPENDED)
            case act.ResumeWorkload(key=key):
                self._suspend(key, State.SUSPENDED, State.RUNNING)
            case act.MeasureWorkload(key=key):
                self.meters.watch(self._runs.get(key))
            case act.ForgetWorkload(key=key):
                self._forget(key)
            case act.AnnotateWorkload(handle=handle, text=text):
                self.annotations[handle] = text
            case act.ProfileWorkload():
                self.profiling.profile(action)
            case act.ProbeWorkload(key=key):
                self.probing.probe(action, self._runs.get(key))

    def run_of(self, key: str) -> SimulatedRun | None:
        """What is known of a key."""
        return self._runs.get(key)

    # --- starting and ending --------------------------------------------------------------

    def _start(self, action: act.StartWorkload) -> None:
        key = action.key
        if key in self._runs:
            self._tell_again(self._runs[key])
            return
        if action.handle and action.handle not in self.released:
            if self.offers.pop(action.handle, None) is None:
                run = self._without_job(key, action.workload)
                why = f"nothing is held under {action.handle!r} any more"
                self._settle(run, ev.StartFailed(key, why, retryable=False))
                return
            self.released.add(action.handle)
        job = self.job_of(action.workload)
        if job is None:
            run = self._without_job(key, action.workload)
            self.tell(ev.StartAccepted(key))
            why = f"no such program: {action.workload.run.command[0]!r}"
            self._settle(run, ev.StartFailed(key, why, retryable=False))
            return
        account = self.accounts.get(job.name) or self.submitted(job)
        account.starts += 1
        account.ended_at, account.failed = None, False
        queue = self.truth.queue(job.application)
        run = self._runs[key] = SimulatedRun(key, job, account, action.placements, queue)
        run.granted = action.placements
        self.tell(ev.StartAccepted(key))
        self.ledger.present += 1
        run.handle = self.loop.schedule(self.now + self._start_seconds(run), self._begin, run)

    def _start_seconds(self, run: SimulatedRun) -> float:
        costs = self.costs
        seconds = costs.start_seconds
        if seconds and costs.start_spread:
            name = run.job.name, run.account.starts
            seconds *= self.streams.lognormal("start", *name, sigma=costs.start_spread)
        return seconds + (costs.move_seconds if run.account.first_run_at is not None else 0.0)

    def _begin(self, run: SimulatedRun) -> None:
        run.handle = 0
        account = run.account
        why = self._why_gone(run.placements)
        if not why and self.faults.start_failures:
            draw = self.streams.uniform("start-failure", run.job.name, account.starts)
            if draw < self.faults.start_failures:
                why = "it was killed before the program began"
        if why:
            self._end(run, ev.StartFailed(run.key, why, retryable=True))
            return
        if account.first_run_at is None:
            account.first_run_at = self.now
        elif not (self.costs.keeps_work or account.warned):
            account.restart()
        account.warned = False
        run.phase = sum(phase.from_work <= account.done for phase in run.job.phases)
        run.state, run.since = State.RUNNING, self.now
        self._set_load((run, self.now - account.submitted_at))
        run.started = ev.WorkloadStarted(run.key, f"{self.name} {run.key}")
        self.tell(run.started)
        self._begin_probing(run)
        self._expect_eviction(run)
        if run.job.load is not None and run.job.lifetime_seconds < inf:
            ends_at = max(self.now, account.submitted_at + run.job.lifetime_seconds)
            run.handle = self.loop.schedule(ends_at, self._complete, run, ENDS)
        self.settle_in(run, run.placements)

    def _expect_eviction(self, run: SimulatedRun) -> None:
        if self.evictions is not None:
            draw = self.streams.uniform("eviction", run.job.name, run.account.starts)
            seconds = -self.evictions.every_seconds * log1p(-draw)
            run.eviction = self.loop.schedule(self.now + seconds, self._warn, run)

    def _warn(self, run: SimulatedRun) -> None:
        """It will be taken off; one that is told so before keeps what it does."""
        assert self.evictions is not None
        notice = self.evictions.notice_seconds
        run.account.warned = notice > 0
        run.eviction = self.loop.schedule(self.now + notice, self._take_off, run, ENDS)

    def _take_off(self, run: SimulatedRun) -> None:
        run.eviction = 0
        self.evict(run.key)

    def _begin_probing(self, run: SimulatedRun) -> None:
        job, command = run.job, run.job.workload.run
        if command.ready is not None:
            self.loop.schedule(self.now + job.ready_seconds, self._become_ready, run)
        if command.alive is not None and job.hangs_seconds < inf:
            self.loop.schedule(self.now + job.hangs_seconds, self._hang, run, ENDS)

    def _become_ready(self, run: SimulatedRun) -> None:
        if run.end is None:
            run.ready = ev.ReadinessChanged(run.key, ready=True)
            self.tell(run.ready)

    def _hang(self, run: SimulatedRun) -> None:
        self._end(run, ev.WorkloadFinished(run.key, None, 15, "not-alive"))

    def _stop(self, key: str) -> None:
        if self.profiling.stop(key):
            return
        run = self._runs.get(key)
        if run is None:
            unknown = Workload(key, WorkloadType.SINGLE_NODE, Command(("unknown",)))
            run = self._without_job(key, unknown)
            self._settle(run, ev.StartFailed(key, STOPPED_EARLY, retryable=False))
        elif run.end is not None:
            self.tell(run.end)
        elif run.state is State.STARTING:
            self._end(run, ev.StartFailed(key, STOPPED_EARLY, retryable=False))
        else:
            self.loop.schedule(self.now + self.costs.stop_seconds, self._stopped, run, ENDS)

    def _stopped(self, run: SimulatedRun) -> None:
        peak_bytes = run.memory_bytes
        stopped = ev.WorkloadFinished(run.key, None, 15, "stopped", memory_peak_bytes=peak_bytes)
        self._end(run, stopped)

    def _forget(self, key: str) -> None:
        self.profiling.forget(key)
        self.probing.forget(key)
        run = self._runs.get(key)
        if run is not None and run.end is not None:
            del self._runs[key]

    def _tell_again(self, run: SimulatedRun) -> None:
        goes_on = run.end is None
        for report in (
            run.started,
            run.ready if goes_on else None,
            run.lost if goes_on else None,
            run.end,
        ):
            if report is not None:
                self._say(report)

    def _without_job(self, key: str, workload: Workload) -> SimulatedRun:
        job = Job(workload, "")
        run = self._runs[key] = SimulatedRun(key, job, Account(job, self.now, (0.0,)), ())
        return run

    def _why_gone(self, placements: tuple[Placement, ...]) -> str:
        gone = [p.server for p in placements if p.server not in self.machines]
        return f"no server {gone[0]!r} here" if gone else ""

    def leave(self, run: SimulatedRun) -> None:
        """It holds nothing any more; no source of interference stays beside it."""
        if self._runs.get(run.key) is run:
            self.probing.stop(run.key, "it does not run there any more")
        super().leave(run)

    # --- while it runs --------------------------------------------------------------------

    def _resize(self, key: str, placements: tuple[Placement, ...]) -> None:
        run = self._runs.get(key)
        why = "it does not run"
        if run is not None and run.state in (State.RUNNING, State.SUSPENDED):
            why = self._why_not_resized(run, placements)
        if run is None or why:
            self.tell(ev.ResizeFailed(key, why, placements))
            return
        run.resizes += 1
        what = (run, run.resizes, placements)
        self.loop.schedule(self.now + self.costs.resize_seconds, self._resized, what)

    def _why_not_resized(self, run: SimulatedRun, placements: tuple[Placement, ...]) -> str:
        """What this engine can't do, as it says itself; empty = it can."""
        granted = {placement.server: placement.allocation for placement in run.granted}
        match self.capabilities.resize:
            case Resize.NONE:
                return "this engine resizes nothing that runs"
            case Resize.WITHIN_ALLOCATION:
                before = {placement.server for placement in run.placements}
                if before != {placement.server for placement in placements}:
                    return "this engine moves nothing that runs"
                for server, given in ((p.server, p.allocation) for p in placements):
                    most = granted[server]
                    if (
                        given.cpu_millicpus > most.cpu_millicpus
                        or given.memory_bytes > most.memory_bytes
                    ):
                        return f"it was started with {most.cpu_millicpus}m on {server}"
        return ""

    def _resized(self, what: tuple[SimulatedRun, int, tuple[Placement, ...]]) -> None:
        run, number, placements = what
        if run.end is not None:
            return
        why = self._why_gone(placements)
        if why:
            self.tell(ev.ResizeFailed(run.key, why, placements))
            return
        if number == run.resizes:
            run.lost = None
            run.settle(self.now)
            self.leave(run)
            self.settle_in(run, placements)
        if run.end is None:
            self.tell(ev.AllocationResized(run.key, placements))

    def _suspend(self, key: str, source: State, target: State) -> None:
        run = self._runs.get(key)
        if run is None or run.state is not source or not self.capabilities.suspend:
            return
        self.probing.stop(key, "it is suspended")
        run.settle(self.now)
        run.state = target
        if run.job.load is None:
            self._cancel_end(run)
        for part in run.parts:
            part.rate = part.used_millicpus = 0.0
        self.refresh_all(run)

    def _set_load(self, what: tuple[SimulatedRun, float]) -> None:
        """What a service is asked from so many seconds of its life on, until that changes."""
        run, passed = what
        load = run.job.load
        if load is None or run.end is not None:
            return
        run.settle(self.now)
        run.load_per_second = load.at(passed)
        change = load.next_change(passed)
        if change is not None:
            at = max(self.now, run.account.submitted_at + change)
            self.loop.schedule(at, self._set_load, (run, change))
        self.refresh_all(run, changed=True)
