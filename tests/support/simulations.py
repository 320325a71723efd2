"""Small simulated worlds, and what must hold of them at every event."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import inf, isclose

from hypothesis import strategies as st

from wharfinger.core.state import held
from wharfinger.model.platform import Platform, Server
from wharfinger.model.workload import (
    LatencyBound,
    Reservation,
    Run,
    Scale,
    Target,
    Workload,
    WorkloadType,
)
from wharfinger.simulator.cluster.runs import State
from wharfinger.simulator.run import Simulation
from wharfinger.simulator.scenario.jobs import APPLICATION, Job, Load
from wharfinger.simulator.scenario.setup import Costs, Faults, Measuring, Outage, Setup
from wharfinger.simulator.truth.ground_truth import TrueResident, Undisturbed

GIBIBYTE = 1024**3
PLATFORMS = (
    Platform("small", "x86_64", "", 4000, 8 * GIBIBYTE),
    Platform("large", "x86_64", "", 8000, 16 * GIBIBYTE),
)


class Crowded(Undisturbed):
    """Each neighbour takes a tenth of what is left; services answer 100 queries a CPU."""

    def rates(self, platform: str, residents: "Iterable[TrueResident]") -> list[float]:
        here = list(residents)
        return [self.alone(platform, each) * 0.9 ** (len(here) - 1) for each in here]

    def alone(self, platform: str, resident: TrueResident) -> float:
        faster = 1.5 if platform == "large" else 1.0
        rate = 100.0 if resident.load_per_second is not None else 1.0
        return faster * rate * resident.cpu_millicpus / 1000

    def most(self, platform: str, application: str) -> float:
        cpus = int(application.removeprefix("cpu").removeprefix("service"))
        own = TrueResident(application, float(cpus), 1, 1.0 if "service" in application else None)
        return self.alone(platform, own)


def servers(count: int) -> tuple[Server, ...]:
    """Of two platforms, in turns."""
    kinds = [PLATFORMS[at % 2] for at in range(count)]
    return tuple(
        Server(f"s{at}", kind, kind.cpu_millicpus, kind.memory_bytes)
        for at, kind in enumerate(kinds)
    )


def batch_job(
    name: str,
    arrives_at: float = 0.0,
    work: float = 10.0,
    cpu: int = 1000,
    memory: int = GIBIBYTE,
    *,
    best_effort: bool = False,
    takes: int | None = None,
) -> Job:
    """So much work; ``takes`` is memory that it really takes, where that is not what it asks."""
    kind = WorkloadType.BEST_EFFORT if best_effort else WorkloadType.SINGLE_NODE
    target = None if best_effort else Target(completion_seconds=2 * work * 1000 / cpu + 10)
    workload = Workload(
        name,
        kind,
        Run((APPLICATION, f"cpu{cpu}"), restartable=True),
        target=target,
        reservation=Reservation(cpu, memory),
    )
    used = memory if takes is None else takes
    return Job(workload, f"cpu{cpu}", arrives_at, work, cpu_millicpus=cpu, memory_bytes=used)


def service_job(name: str, arrives_at: float, seconds: float, load: Load, cpu: int = 1000) -> Job:
    """A service, wanted for so long; it may run on four servers."""
    workload = Workload(
        name,
        WorkloadType.LATENCY_CRITICAL,
        Run((APPLICATION, f"service{cpu}")),
        target=Target(latency=LatencyBound(99, 0.2)),
        scale=Scale(max_servers=4),
        reservation=Reservation(cpu, GIBIBYTE),
    )
    return Job(
        workload,
        f"service{cpu}",
        arrives_at,
        lifetime_seconds=seconds,
        cpu_millicpus=cpu,
        memory_bytes=GIBIBYTE,
        load=load,
    )


def setups(most_jobs: int = 12) -> "st.SearchStrategy[Setup]":
    """Worlds with faults."""
    return st.builds(
        _setup,
        st.integers(1, 4),
        st.lists(_jobs, min_size=1, max_size=most_jobs),
        st.lists(st.tuples(st.integers(0, 3), st.floats(0, 60), st.floats(1, 30)), max_size=4),
        st.sampled_from((0.0, 0.3)),
        st.sampled_from((0.0, 0.3)),
        st.booleans(),
    )


_jobs = st.tuples(
    st.sampled_from(("batch", "batch", "filler", "service", "greedy")),
    st.floats(0, 40),
    st.floats(0, 30),
    st.sampled_from((500, 1000, 2000, 4000)),
)


def _setup(
    count: int,
    drawn: list[tuple[str, float, float, int]],
    outages: list[tuple[int, float, float]],
    start_failures: float,
    lost: float,
    keeps_work: bool,
) -> Setup:
    jobs = []
    for at, (kind, arrives, work, cpu) in enumerate(sorted(drawn, key=lambda job: job[1])):
        name = f"w{at}"
        if kind == "service":
            load = Load((0.0, 10.0, 20.0), (50.0, 300.0, 20.0))
            jobs.append(service_job(name, arrives, work + 1.0, load, cpu))
        elif kind == "greedy":
            jobs.append(batch_job(name, arrives, work, cpu, takes=6 * GIBIBYTE))
        else:
            jobs.append(batch_job(name, arrives, work, cpu, best_effort=kind == "filler"))
    away = tuple(
        Outage(f"s{at % count}", begins, seconds)
        for at, begins, seconds in sorted(outages, key=lambda outage: outage[1])
    )
    memory = {platform.name: platform.memory_bytes for platform in PLATFORMS}
    return Setup(
        "drawn",
        servers(count),
        tuple(jobs),
        Crowded(memory_bytes=memory),
        costs=Costs(keeps_work=keeps_work),
        faults=Faults(away, start_failures, lost, found_seconds=5.0),
        measuring=Measuring(every_seconds=2.0),
        until_seconds=400.0,
    )


@dataclass(slots=True)
class Watch:
    """Follows a run event by event, and adds up what each job does by itself.

    Attributes:
        simulation: The run.
        done: Work, by the job's name.
        starts: Of each job, as far as they were seen.
    """

    simulation: Simulation
    done: dict[str, float] = field(default_factory=dict)
    starts: dict[str, int] = field(default_factory=dict)

    def run(self, check: bool = True) -> None:
        """To the end, with a look after each event."""
        simulation, until = self.simulation, self.simulation.setup.until_seconds or inf
        simulation.start()
        while not simulation.is_over():
            due = simulation.loop.peek()
            if due is None or due > until:
                break
            rates = self._rates()
            before = simulation.loop.now
            simulation.step()
            self._add(rates, simulation.loop.now - before)
            if check:
                self.look()

    def look(self) -> None:
        """What must hold at any moment."""
        self._room_is_kept()
        self._sums_agree()
        self._each_job_runs_once()
        self._work_is_what_was_done()

    # --- pieces --------------------------------------------------------------------------------

    def _rates(self) -> dict[str, tuple[int, float]]:
        running = [run for run in self.simulation.cluster.runs if run.state is State.RUNNING]
        return {run.job.name: (run.account.starts, run.rate) for run in running if not run.job.load}

    def _add(self, rates: dict[str, tuple[int, float]], seconds: float) -> None:
        keeps = self.simulation.setup.costs.keeps_work
        for name, (start, rate) in rates.items():
            if self.starts.get(name) != start:
                self.starts[name] = start
                self.done[name] = self.done.get(name, 0.0) if keeps else 0.0
            self.done[name] += rate * seconds

    def _room_is_kept(self) -> None:
        for machine in self.simulation.cluster.machines.values():
            parts = [part.allocation for part in machine.parts]
            cpu = sum(each.cpu_millicpus for each in parts)
            memory = sum(each.memory_bytes for each in parts)
            assert cpu <= machine.server.cpu_millicpus, f"{cpu}m on {machine.server.name}"
            assert memory <= machine.server.memory_bytes, f"{memory} B on {machine.server.name}"
            assert (cpu, memory) == (
                machine.allocated_millicpus,
                machine.memory_allocated_bytes,
            )
            had = sum(p.cpu_millicpus for p in machine.parts if p.run.state is State.RUNNING)
            assert had <= machine.cpu_millicpus * (1 + 1e-9)

    def _sums_agree(self) -> None:
        cluster = self.simulation.cluster
        machines = list(cluster.machines.values())
        ledger = cluster.ledger
        assert isclose(ledger.capacity, sum(m.cpu_millicpus for m in machines), abs_tol=1e-6)
        used = sum(m.used_millicpus for m in machines)
        assert isclose(ledger.used, used, abs_tol=1e-6)
        assert ledger.busy == sum(bool(m.parts) for m in machines)
        given = sum(m.allocated_millicpus for m in machines)
        assert isclose(ledger.allocated, given, abs_tol=1e-6)
        assert used <= ledger.capacity * (1 + 1e-9)

    def _each_job_runs_once(self) -> None:
        cluster, state = self.simulation.cluster, self.simulation.manager.state
        alive = [run.job.name for run in cluster.runs if run.end is None]
        assert len(alive) == len(set(alive)), f"{alive} run twice"
        assert set(alive) <= set(state.workloads)
        assert set(cluster.accounts) >= set(state.workloads)
        view = self.simulation.manager.view
        for row, name in enumerate(view.names):
            told = sum(
                placement.allocation.cpu_millicpus
                for record in state.workloads.values()
                if record.on_server or record.profiling
                for placement in held(record)
                if placement.server == name
            )
            assert view.cpu_allocated[row] == told, name

    def _work_is_what_was_done(self) -> None:
        cluster = self.simulation.cluster
        for run in cluster.runs:
            run.settle(cluster.now)
        for name, done in self.done.items():
            account = cluster.accounts[name]
            if self.starts[name] == account.starts:
                assert isclose(account.done, done, rel_tol=1e-6, abs_tol=1e-6), name
            assert account.done <= account.job.work * (1 + 1e-9) + 1e-9, name
