"""The ground truth of hardware and applications (``GroundTruth``): what the solver says, cached.

One unit of work is an instruction; services answer queries. The same question has the same answer
whatever was asked before, since the solver always starts from the same state.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from wharfinger.errors import InvalidInput
from wharfinger.model.interference import SharedResource
from wharfinger.model.platform import MILLICPUS_PER_CPU
from wharfinger.simulator.truth.ground_truth import TrueResident
from wharfinger.simulator.truth.physics.application import Application
from wharfinger.simulator.truth.physics.hardware import Hardware
from wharfinger.simulator.truth.physics.solver import (
    Asked,
    Constants,
    Solution,
    Solver,
    Spent,
    bandwidths,
)
from wharfinger.simulator.truth.physics.sources import CORE_SOURCES, source_of
from wharfinger.simulator.truth.queueing import Queue

_PER_SECOND = 1e9  # per nanosecond
_SWAP = 1.1  # demand for memory over what a server has, at which the kernel kills; over 1 it pages
_PREFIX = "ibench/"
_TALKERS = 2
_MAX_CACHED = 200_000


class Physics:
    """Rates of applications on platforms, by the model of ``solver``."""

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
        self._sources: dict[str, Application] = {}
        self._last: tuple[str, Sequence[TrueResident], Solution] | None = None

    def fits(self, platform: str, residents: Sequence[TrueResident]) -> bool:
        """Whether they are within memory and what may be paged; sources take what is left."""
        memory = sum(r.memory_bytes for r in residents if not r.application.startswith(_PREFIX))
        return memory <= self.hardware[platform].memory_bytes * _SWAP

    def working_set(self, application: str, memory_bytes: int) -> int:
        """Without the data of a framework's job: what memory does not hold it reads again."""
        return min(memory_bytes, self._application(application).footprint_bytes)

    def rates(self, platform: str, residents: Sequence[TrueResident]) -> list[float]:
        """Instructions per second; of a service, queries that it could answer."""
        solution = self._solve(platform, residents)
        self._last = platform, residents, solution
        pairs = zip(residents, solution.could, strict=True)
        return [self._in_units(resident, could) for resident, could in pairs]

    def used_millicpus(
        self, platform: str, residents: Sequence[TrueResident], _rates: Sequence[float]
    ) -> list[float]:
        """Waiting for a cache keeps a CPU busy, waiting for a disk does not."""
        if self._last is None or self._last[0] != platform or self._last[1] is not residents:
            self._last = platform, residents, self._solve(platform, residents)
        return [MILLICPUS_PER_CPU * busy for busy in self._last[2].busy]

    def alone(self, platform: str, resident: TrueResident) -> float:
        """Rate of one with a server to itself."""
        key = (platform, resident)
        rate = self._alone.get(key)
        if rate is None:
            if len(self._alone) >= _MAX_CACHED:
                self._alone.clear()
            could = self._solve(platform, (resident,)).could[0]
            rate = self._alone[key] = self._in_units(resident, could)
        return rate

    def most(self, platform: str, application: str) -> float:
        """Rate with all CPUs that it can use; 0 where its memory does not fit."""
        program, hardware = self._application(application), self.hardware[platform]
        cpus = MILLICPUS_PER_CPU * float(min(program.threads, hardware.cores))
        # As much of its data as fits.
        memory = int(min(program.footprint_bytes + program.data_bytes, hardware.memory_bytes))
        load = None if program.serving is None else 0.0
        resident = TrueResident(application, cpus, memory, load)
        if memory < program.footprint_bytes or not self.fits(platform, [resident]):
            return 0.0
        return self.alone(platform, resident)

    def queue(self, application: str) -> Queue:
        """One worker for each CPU."""
        serving = self._application(application).serving
        return Queue(serving.variation) if serving else Queue()

    def source(
        self, platform: str, resource: SharedResource, intensity: float, beside: TrueResident
    ) -> TrueResident | None:
        """A source beside a workload; a core's need its other threads, messages two cores."""
        if resource is SharedResource.INTERCONNECT and self.hardware[platform].cores < _TALKERS:
            return None
        if resource in CORE_SOURCES and not self._solvers[platform].has_siblings:
            return None
        cpus = beside.cpu_millicpus / MILLICPUS_PER_CPU
        application, cap = source_of(resource, intensity, self._scaled(platform), cpus)
        name = f"{_PREFIX}{platform}/{cpus:g}/{application.name}"
        self._sources.setdefault(name, application)
        return TrueResident(
            name,
            MILLICPUS_PER_CPU * float(application.threads),
            application.footprint_bytes,
            None if cap < 0 else cap * _PER_SECOND,
            core_of=beside.application if resource in CORE_SOURCES else "",
        )

    def utilisation(self, platform: str, residents: Sequence[TrueResident]) -> list[float]:
        """Of memory bandwidth, last-level cache, disk and network, 0 to 1."""
        self._solve(platform, residents)
        return self._solvers[platform].kernel.utilisation()

    def spent(self, platform: str, residents: Sequence[TrueResident]) -> list[Spent]:
        """What each does with its CPU time."""
        return self._solvers[platform].spent(
            [self._asked(at, each, residents) for at, each in enumerate(residents)]
        )

    def _scaled(self, platform: str) -> Hardware:
        hardware = self.hardware[platform]
        return replace(hardware, memory_bandwidth=bandwidths(hardware, self.constants)[0])

    def _application(self, name: str) -> Application:
        if name in self._sources:
            return self._sources[name]
        if name not in self.applications:
            raise InvalidInput(f"application {name!r} is not in this population")
        return self.applications[name]

    def _solve(self, platform: str, residents: Sequence[TrueResident]) -> Solution:
        return self._solvers[platform].solve(
            [self._asked(at, each, residents) for at, each in enumerate(residents)]
        )

    def _asked(self, at: int, resident: TrueResident, residents: Sequence[TrueResident]) -> Asked:
        application = self._application(resident.application)
        load, servers = resident.load_per_second, resident.servers
        cap = -1.0 if load is None else load * application.query_instructions / _PER_SECOND
        return Asked(
            application,
            resident.cpu_millicpus / MILLICPUS_PER_CPU,
            float(resident.memory_bytes),
            cap,
            application.per_server(servers) if servers > 1 else 1.0,
            rereads(application, resident.memory_bytes, servers) if application.reread else 0.0,
            _bound_to(at, resident, residents) if resident.core_of else -1,
            resident.cores,
        )

    def _in_units(self, resident: TrueResident, instructions_per_ns: float) -> float:
        application = self._application(resident.application)
        return instructions_per_ns * _PER_SECOND / application.query_instructions


def rereads(application: Application, memory_bytes: float, servers: int) -> float:
    """Bytes per instruction that a framework's job reads again, as its memory can't hold them."""
    part = application.data_bytes / servers
    if part <= 0:
        return 0.0
    room = max(0.0, memory_bytes - application.footprint_bytes)
    return application.reread * max(0.0, 1 - room / part)


def _bound_to(own: int, resident: TrueResident, residents: Sequence[TrueResident]) -> int:
    """Place of the last before it with that application, else of the first after it; -1 = none."""
    alike = (at for at, each in enumerate(residents) if each.application == resident.core_of)
    places = [at for at in alike if at != own]
    before = [at for at in places if at < own]
    return before[-1] if before else places[0] if places else -1
