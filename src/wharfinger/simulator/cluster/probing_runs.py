"""Probes of what runs in the simulated cluster: sources of interference that rise beside it.

Beside the workload itself, or beside a copy that goes on from where it is, on another server. Each
reading is of a moment, with a measurement's error.
"""

import math
from dataclasses import dataclass, field, replace
from functools import partial

from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.model.allocation import Allocation, Placement
from wharfinger.model.interference import OF_A_CORE, SharedResource
from wharfinger.model.profile import Entry, Measurements
from wharfinger.profiling.rising import Rising
from wharfinger.simulator.cluster.injection import Probes
from wharfinger.simulator.cluster.runs import Account, SimulatedRun, SimulatedServer, State
from wharfinger.simulator.cluster.servers import SimulatedServers
from wharfinger.simulator.scenario.jobs import Load
from wharfinger.simulator.truth.ground_truth import TrueResident

SAMPLE_SECONDS = 1.0
NO_SIGNAL = "nothing injects it here"


@dataclass(slots=True, eq=False)
class ProbeUnderWay:
    """One probe.

    Attributes:
        run: The workload's own; ``beside`` is that or a copy, beside which the sources rise.
        source: At work now, at ``intensity``.
        probed: By source, what the source at ``PROBE_INTENSITY`` was beside, for ``caused``.
    """

    action: act.ProbeWorkload
    run: SimulatedRun
    rising: Rising
    beside: SimulatedRun | None = None
    source: SimulatedRun | None = None
    at: tuple[SharedResource, float] | None = None
    samples: int = 0
    handle: int = 0
    probed: dict[SharedResource, TrueResident] = field(default_factory=dict)


class ProbesOfRunning:
    """All probes of a cluster: one at a time for each run."""

    def __init__(self, cluster: SimulatedServers) -> None:
        self._cluster = cluster
        self._probes: dict[str, ProbeUnderWay] = {}
        self._answers: dict[str, ev.WorkloadProbed] = {}
        self._shown = Probes(cluster.truth)

    def probe(self, action: act.ProbeWorkload, run: SimulatedRun | None) -> None:
        """Begin one; asked for again it goes on, or is answered as before."""
        key, number, cluster = action.key, action.number, self._cluster
        if (known := self._answers.get(key)) is not None and known.number == number:
            cluster.tell(known)
            return
        if (present := self._probes.get(key)) is not None:
            if present.action.number == number:
                return
            self._withdraw(present)
        if why := self._why_not(action, run):
            self._answer(ev.WorkloadProbed(key, number, Measurements(), why))
            return
        assert run is not None
        plan = action.plan
        rising = Rising(self._sources(action, run), plan.tolerance)
        probe = ProbeUnderWay(action, run, rising)
        self._probes[key] = probe
        after = cluster.costs.start_seconds if plan.live else cluster.costs.move_seconds
        probe.handle = cluster.loop.schedule(cluster.now + after, self._begin, probe)

    def _why_not(self, action: act.ProbeWorkload, run: SimulatedRun | None) -> str:
        able = self._cluster.capabilities
        if not able.probes_running:
            return "this engine does not probe what runs"
        if not action.plan.live and not able.clones:
            return "this engine does not copy what runs"
        if not action.plan.live and action.plan.server not in self._cluster.machines:
            return f"no server {action.plan.server!r} here"
        if run is None or run.state is not State.RUNNING:
            return "it does not run"
        if action.plan.live and len(run.parts) != 1:
            return "it does not run on one server"
        here = run.placements[0].server if action.plan.live else action.plan.server
        if any(here == _server_of(probe) for probe in self._probes.values()):
            return f"another plan is carried out on {here}"
        if action.plan.sources and not self._sources(action, run):
            return f"{' and '.join(action.plan.sources)} would reach its neighbors"
        return ""

    def _sources(self, action: act.ProbeWorkload, run: SimulatedRun) -> tuple[SharedResource, ...]:
        """Those that share nothing with neighbors but the CPUs of what is probed."""
        sources = action.plan.sources
        if not action.plan.live or len(run.parts[0].machine.parts) == 1:
            return sources
        return tuple(source for source in sources if source in OF_A_CORE)

    def stop(self, key: str, reason: str) -> None:
        """End the probe of a run, if there is one: nothing was measured."""
        probe = self._probes.get(key)
        if probe is not None:
            self._withdraw(probe)
            self._answer(ev.WorkloadProbed(key, probe.action.number, Measurements(), reason))

    def server_left(self, machine: SimulatedServer, reason: str) -> None:
        """Copies there are gone."""
        for probe in list(self._probes.values()):
            if not probe.action.plan.live and _server_of(probe) == machine.server.name:
                self.stop(probe.action.key, reason)

    def forget(self, key: str) -> None:
        """Its answer is not asked for again."""
        self._answers.pop(key, None)

    def clear(self) -> None:
        """The engine that asked is gone, and its sources with it."""
        for probe in list(self._probes.values()):
            self._withdraw(probe)
        self._answers.clear()

    # --- one probe ------------------------------------------------------------------------------

    def _begin(self, probe: ProbeUnderWay) -> None:
        probe.handle = 0
        probe.beside = probe.run
        if not probe.action.plan.live:
            job = replace(probe.run.job, application=probe.run.application, phases=())
            held = probe.run.placements[0].allocation
            probe.beside = copy = SimulatedRun(
                f"{probe.action.key}/copy",
                job,
                Account(job, self._cluster.now, (1.0,)),
                (),
                probe.run.queue,
                partial(self.stop, probe.action.key),
                state=State.RUNNING,
                since=self._cluster.now,
                load_per_second=probe.run.load_per_second * probe.run.parts[0].share,
            )
            self._cluster.settle_in(copy, (Placement(probe.action.plan.server, held),))
        if probe.action.key in self._probes:  # Else the copy did not fit in memory.
            self._go_on(probe)

    def _go_on(self, probe: ProbeUnderWay) -> None:
        """Set what is wanted, and read it soon; or it is over."""
        while (wanted := probe.rising.wanted) is not None:
            if wanted == probe.at or self._inject(probe, *wanted):
                if probe.action.key in self._probes:
                    at = self._cluster.now + SAMPLE_SECONDS
                    probe.handle = self._cluster.loop.schedule(at, self._read, probe)
                return
            probe.rising.silence(NO_SIGNAL)
        self._end_source(probe)
        platform = self._machine(probe).platform
        answer = probe.rising.measurements(self._caused(probe), platform)
        self._withdraw(probe)
        reason = "" if answer.tolerated or answer.silent else "it has no sources"
        self._answer(ev.WorkloadProbed(probe.action.key, probe.action.number, answer, reason))

    def _read(self, probe: ProbeUnderWay) -> None:
        probe.handle = 0
        assert probe.at is not None and probe.beside is not None
        cluster, (source, _) = self._cluster, probe.at
        what = "probe", probe.action.key, probe.action.number, source.value, probe.samples
        probe.samples += 1
        seen = cluster.meters.error(probe.beside.rate, *what)
        neighbor = None
        if probe.source is not None and probe.source.parts:
            part, own = probe.source.parts[0], probe.beside.parts[0].resident
            assert part.resident is not None and own is not None
            alone = self._shown.alone(
                self._machine(probe).platform, replace(part.resident, core_of="")
            )
            rate = cluster.meters.error(probe.source.rate, *what, "source")
            neighbor = rate / alone if alone > 0 else 1.0
            probe.probed[source] = own
        probe.rising.take(seen, neighbor)
        self._go_on(probe)

    def _caused(self, probe: ProbeUnderWay) -> dict[SharedResource, Entry]:
        platform, noise = self._machine(probe).platform, self._cluster.meters.noise
        caused = {}
        for source, (intensity, ratios) in probe.rising.probed.items():
            own = probe.probed[source]
            entry = self._shown.caused(platform, source, own, ratios, noise, intensity)
            if entry.value == 0:
                looks = len(ratios)
                limit = self._shown.unseen(platform, source, own, looks, noise, intensity)
                entry = Entry(0.0, math.hypot(entry.error, limit / 2))
            caused[source] = entry
        return caused

    def _machine(self, probe: ProbeUnderWay) -> SimulatedServer:
        assert probe.beside is not None
        return probe.beside.parts[0].machine

    def _inject(self, probe: ProbeUnderWay, resource: SharedResource, intensity: float) -> bool:
        """Whether the source has an effect here."""
        self._end_source(probe)
        assert probe.beside is not None
        cluster, part = self._cluster, probe.beside.parts[0]
        machine, beside = part.machine, part.resident
        assert beside is not None
        source = cluster.truth.source(machine.platform, resource, max(intensity, 1.0), beside)
        free = machine.cpu_millicpus - machine.allocated_millicpus
        if source is None or (free <= 0 and not source.core_of):
            return False
        probe.at = resource, intensity
        if intensity <= 0:
            return True
        cpu = source.cpu_millicpus if source.core_of else min(source.cpu_millicpus, free)
        cap = source.load_per_second
        job = replace(
            probe.run.job,
            application=source.application,
            load=None if cap is None else Load((0.0,), (cap,)),
            memory_bytes=source.memory_bytes,
            cpu_millicpus=max(1, round(cpu)),
            phases=(),
        )
        probe.source = SimulatedRun(
            f"{probe.action.key}/{resource}",
            job,
            Account(job, cluster.now, (1.0,)),
            (),
            cluster.truth.queue(job.application),
            partial(self.stop, probe.action.key),
            source.core_of,
            state=State.RUNNING,
            since=cluster.now,
            load_per_second=cap or 0.0,
        )
        # It holds nothing: CPU that is allocated later is taken from the source.
        held = Placement(machine.server.name, Allocation(0, 0, best_effort=True))
        cluster.settle_in(probe.source, (held,))
        return True

    def _end_source(self, probe: ProbeUnderWay) -> None:
        source, probe.source, probe.at = probe.source, None, None
        if source is not None:
            source.state = State.ENDED
            self._cluster.leave(source)

    def _withdraw(self, probe: ProbeUnderWay) -> None:
        """Nothing of it is left."""
        self._probes.pop(probe.action.key, None)
        if probe.handle:
            self._cluster.loop.cancel(probe.handle)
            probe.handle = 0
        self._end_source(probe)
        if probe.beside is not None and probe.beside is not probe.run:
            probe.beside.state = State.ENDED
            self._cluster.leave(probe.beside)

    def _answer(self, answer: ev.WorkloadProbed) -> None:
        self._answers[answer.key] = answer
        self._cluster.tell(answer)


def _server_of(probe: ProbeUnderWay) -> str:
    """Where its sources rise."""
    plan = probe.action.plan
    return probe.run.placements[0].server if plan.live else plan.server
