"""The ground truth of hardware and applications (``GroundTruth``): what the solver says, cached.

One unit of work is an instruction; services are asked and answer queries. The same question has
the same answer whatever was asked before, since every solution is sought from the same start.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from wharfinger.errors import InvalidInput
from wharfinger.model.interference import SharedResource
from wharfinger.model.platform import MILLICPUS_PER_CPU
from wharfinger.simulator.truth.ground_truth import TrueResident
from wharfinger.simulator.truth.physics.application import Application
from wharfinger.simulator.truth.physics.hardware import Hardware
from wharfinger.simulator.truth.physics.solver import Asked, Constants, Solution, Solver, bandwidths
from wharfinger.simulator.truth.physics.sources import CORE_SOURCES, SourceApplication, source_of
from wharfinger.simulator.truth.queueing import Queue

PER_SECOND = 1e9
"""Instructions per ns to instructions per second."""
SWAP = 1.1
"""Of its memory a server holds so much before the kernel kills; beyond 1 it pages."""
_PREFIX = "ibench/"
_MOST_KEPT = 200_000


class Physics:
    """Rates by the model of ``solver``.

    Args:
        hardware: Of the platforms, each once.
        applications: That may run.
        constants: Of the model.
    """

    unit = "instructions"
    references: tuple[str, ...] = ()

    def __init__(
        self,
        hardware: Iterable[Hardware],
        applications: Iterable[Application],
        constants: Constants | None = None,
    ) -> None:
        self.constants = constants or Constants()
        self.hardware = {each.name: each for each in hardware}
        self.applications = {each.name: each for each in applications}
        self._solvers = {name: Solver(each, self.constants) for name, each in self.hardware.items()}
        self._alone: dict[tuple[str, TrueResident], float] = {}
        self._sources: dict[str, SourceApplication] = {}
        self._last: tuple[str, Sequence[TrueResident], Solution] | None = None

    def fits(self, platform: str, residents: Sequence[TrueResident]) -> bool:
        """Within memory and what it may page; sources take what is left."""
        memory = sum(r.memory_bytes for r in residents if not _is_source(r.application))
        return memory <= self.hardware[platform].memory_bytes * SWAP

    def rates(self, platform: str, residents: Sequence[TrueResident]) -> list[float]:
        """Instructions per second; of a service, queries that it could answer."""
        found = self._solve(platform, residents)
        self._last = platform, residents, found
        return [
            self._told(resident, could)
            for resident, could in zip(residents, found.could, strict=True)
        ]

    def used_millicpus(
        self, platform: str, residents: Sequence[TrueResident], _rates: Sequence[float]
    ) -> list[float]:
        """Waiting for a cache keeps a CPU busy, waiting for a disk does not."""
        if self._last is None or self._last[0] != platform or self._last[1] is not residents:
            self._last = platform, residents, self._solve(platform, residents)
        return [MILLICPUS_PER_CPU * busy for busy in self._last[2].busy]

    def alone(self, platform: str, resident: TrueResident) -> float:
        """With a server to itself."""
        key = (platform, resident)
        found = self._alone.get(key)
        if found is None:
            if len(self._alone) >= _MOST_KEPT:
                self._alone.clear()
            solution = self._solve(platform, (resident,))
            found = self._alone[key] = self._told(resident, solution.could[0])
        return found

    def most(self, platform: str, application: str) -> float:
        """With all CPUs that it can use; 0 where its memory does not fit."""
        known, hardware = self._application(application), self.hardware[platform]
        cpus = MILLICPUS_PER_CPU * float(min(known.threads, hardware.cores))
        memory = held_bytes(known, hardware)
        load = None if known.serving is None else 0.0
        resident = TrueResident(application, cpus, memory, load)
        if memory < known.footprint_bytes or not self.fits(platform, [resident]):
            return 0.0
        return self.alone(platform, resident)

    def queue(self, application: str) -> Queue:
        """As its queries vary; each CPU answers one."""
        serving = self._application(application).serving
        return Queue(serving.variation) if serving else Queue()

    def source(
        self, platform: str, resource: SharedResource, intensity: float, beside: TrueResident
    ) -> TrueResident | None:
        """A source beside a workload; those of a core need its other threads."""
        if resource in CORE_SOURCES and not self._solvers[platform].has_siblings:
            return None
        cpus = beside.cpu_millicpus / MILLICPUS_PER_CPU
        found = source_of(resource, intensity, self._as_it_is(platform), cpus)
        name = f"{_PREFIX}{platform}/{cpus:g}/{found.application.name}"
        self._sources.setdefault(name, found)
        near = beside.application if found.bound else ""
        given = MILLICPUS_PER_CPU * found.cpus
        load = None if found.cap < 0 else found.cap * PER_SECOND
        return TrueResident(name, given, found.memory_bytes, load, core_of=near)

    # --- pieces ---------------------------------------------------------------------------

    def utilisation(self, platform: str, residents: Sequence[TrueResident]) -> list[float]:
        """Of memory, last-level cache, disk and network, 0 to 1."""
        self._solve(platform, residents)
        return self._solvers[platform].kernel.utilisation()

    def _as_it_is(self, platform: str) -> Hardware:
        """With the bandwidth that it has here: a source finds out itself how much it can take."""
        hardware = self.hardware[platform]
        return replace(hardware, memory_bandwidth=bandwidths(hardware, self.constants)[0])

    def _application(self, name: str) -> Application:
        if name in self._sources:
            return self._sources[name].application
        if name not in self.applications:
            raise InvalidInput(f"application {name!r} is not in this population")
        return self.applications[name]

    def _solve(self, platform: str, residents: Sequence[TrueResident]) -> Solution:
        return self._solvers[platform].solve(
            [self._asked(at, each, residents) for at, each in enumerate(residents)]
        )

    def _asked(self, at: int, resident: TrueResident, residents: Sequence[TrueResident]) -> Asked:
        application = self._application(resident.application)
        cpus, servers = resident.cpu_millicpus / MILLICPUS_PER_CPU, resident.servers
        load, cap = resident.load_per_second, -1.0
        if load is not None:
            cap = load * query_instructions(application) / PER_SECOND
        return Asked(
            application,
            cpus,
            float(resident.memory_bytes),
            cap,
            application.per_server(servers) if servers > 1 else 1.0,
            rereads(application, resident.memory_bytes, servers) if application.reread else 0.0,
            _bound_to(at, resident, residents) if resident.core_of else -1,
        )

    def _told(self, resident: TrueResident, instructions_per_ns: float) -> float:
        application = self._application(resident.application)
        rate = instructions_per_ns * PER_SECOND
        return rate / query_instructions(application) if application.serving else rate


def query_instructions(application: Application) -> float:
    """Of a query; 1 where there are no queries."""
    return application.serving.instructions if application.serving else 1.0


def rereads(application: Application, memory_bytes: float, servers: int) -> float:
    """Bytes per instruction that a framework's job reads again, for what its memory can't hold."""
    part = application.data_bytes / servers
    if part <= 0:
        return 0.0
    room = max(0.0, memory_bytes - application.footprint_bytes)
    return application.reread * max(0.0, 1 - room / part)


def held_bytes(application: Application, hardware: Hardware, servers: int = 1) -> int:
    """Memory that it takes of a server: its own, and of its data what there is room for."""
    wanted = application.footprint_bytes + application.data_bytes / servers
    return int(min(wanted, hardware.memory_bytes))


def _is_source(name: str) -> bool:
    return name.startswith(_PREFIX)


def _bound_to(own: int, resident: TrueResident, residents: Sequence[TrueResident]) -> int:
    """Place of the one of that application that came last before it, else of the first other."""
    alike = (at for at, each in enumerate(residents) if each.application == resident.core_of)
    places = [at for at in alike if at != own]
    before = [at for at in places if at < own]
    return before[-1] if before else places[0] if places else -1
