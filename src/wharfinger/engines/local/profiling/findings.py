"""What one plan's runs have found so far, until it is made into ``Measurements``.

Filled by ``sequence`` and ``whole_runs``. What is absent at the end has a reason beside it.
"""

from collections.abc import Mapping, Sequence

from wharfinger.engines.local.profiling.bench import wanted_of
from wharfinger.engines.local.profiling.copies import CopyFailed
from wharfinger.engines.local.profiling.injection import EVERYWHERE
from wharfinger.engines.local.profiling.job import Job
from wharfinger.engines.local.profiling.readings import PERFORMANCES
from wharfinger.engines.local.profiling.scores import (
    Stretch,
    capacity,
    caused_by_own_use,
    caused_by_sharing,
    caused_on_cpu,
    larger,
    performance,
)
from wharfinger.model.interference import SharedResource
from wharfinger.model.performance import Quantity
from wharfinger.model.profile import Entry, Measurements

LEAST_IO_BYTES_PER_SECOND = 16384.0
"""With less, it is for want of CPU time, not of the device, that a source falls short."""


USE_ERROR = 0.05
"""Relative, of CPU time."""


class Findings:
    """Entries, and what is silent.

    Attributes:
        wanted: The quantities that the workload's target needs.
        tolerated: As in ``Measurements``; so is ``caused``.
        total: Work when all is done.
        stopped: Why the plan came to an end before its time; empty where it did not.
    """

    def __init__(self, job: Job) -> None:
        self.wanted = wanted_of(job.workload)
        self.tolerated: dict[SharedResource, Entry] = {}
        self.caused: dict[SharedResource, Entry] = {}
        self.total = job.workload.measure.progress_total
        self.stopped = ""
        self._job = job
        self._performance: dict[Quantity, dict[int, Entry]] = {}
        self._silent: dict[str, str] = {}
        self._used_cpus: dict[int, float] = {}

    @staticmethod
    def alone(stretches: Sequence[Stretch]) -> Mapping[Quantity, Entry]:
        """The entries that stretches at one allocation make."""
        found = {quantity: performance(stretches, quantity) for quantity in PERFORMANCES}
        return {quantity: entry for quantity, entry in found.items() if entry is not None}

    def add_performance(
        self, cpu_millicpus: int, stretches: Sequence[Stretch], used_cpus: float | None = None
    ) -> None:
        """Performance at an allocation, in place of what was said of it before.

        Args:
            cpu_millicpus: The allocation.
            stretches: At it.
            used_cpus: CPU seconds per second meanwhile; ``None`` = what was said before, if any.
        """
        if used_cpus is not None:
            self._used_cpus[cpu_millicpus] = used_cpus
        used = self._used_cpus.get(cpu_millicpus)
        for quantity, told in self.alone(stretches).items():
            # Who is asked little answers little, whatever it could.
            asked = quantity is Quantity.THROUGHPUT and used
            entry = capacity(told, cpu_millicpus, used) if asked and used else told
            self._performance.setdefault(quantity, {})[cpu_millicpus] = entry
            self._silent.pop(f"performance/{cpu_millicpus}", None)

    def add_cpu_use(self, used_cpus: Sequence[float]) -> None:
        """CPU seconds per second, alone at the first allocation."""
        if used_cpus and SharedResource.INTEGER in self._job.plan.sources:
            cpus = len(self._job.server.cpus)
            self.caused[SharedResource.INTEGER] = caused_on_cpu(used_cpus, cpus)

    def add_storage_use(
        self,
        maximum_per_second: float | None,
        io_bytes_per_second: float | None,
        asked: float,
        achieved: Sequence[float],
    ) -> None:
        """What the source was kept from beside the copy, and what that moves itself.

        Args:
            maximum_per_second: Of the source.
            io_bytes_per_second: The copy's own, alone; ``None`` = not known.
            asked: Of the source, at most.
            achieved: Beside the copy.
        """
        own, shared = None, caused_by_sharing(asked, achieved)
        if io_bytes_per_second is not None and maximum_per_second:
            own = caused_by_own_use(io_bytes_per_second, maximum_per_second)
            if io_bytes_per_second < LEAST_IO_BYTES_PER_SECOND:
                shared = None
        storage = SharedResource.STORAGE_BANDWIDTH
        tolerated = self.tolerated.get(storage)
        if tolerated is None or tolerated.censored:
            shared = None  # Whoever shares a congested device is slowed, too.
        found = larger([shared, own])
        if found is not None:
            self.caused[storage] = found
        else:
            reason = "the kernel does not say its I/O, and the device was not congested"
            self.silence(f"caused/{storage.value}", reason)

    def silence_sources(self, reason: str) -> None:
        """Say why no more sources are injected."""
        for resource in self._job.plan.sources:
            if resource not in self.tolerated:
                self.silence(f"tolerated/{resource.value}", reason)

    def silence(self, what: str, reason: str) -> None:
        """Say why something is absent, or is only a bound."""
        self._silent[what] = reason

    def silence_storage(self, resource: SharedResource, reason: str) -> None:
        """What is caused is seen at the source, so without one it is silent, too."""
        if resource in EVERYWHERE:
            self.silence(f"caused/{resource.value}", reason)

    def neighbour_fell(self, resource: SharedResource, name: str) -> None:
        """The source was withdrawn, and no other is injected."""
        reason = f"withdrawn: {name} fell below its target; a lower bound"
        self.silence(f"tolerated/{resource.value}", reason)
        self.stopped = f"{name} fell below its target beside {resource.value}"

    def measurements(self, *, runs: int, seconds: float) -> Measurements:
        """All of it, with a reason for each number that should be there and is not.

        Raises:
            CopyFailed: There is nothing at all.
        """
        if not self._performance and not self.caused:
            raise CopyFailed(self.stopped or "; ".join(self._silent.values()) or "nothing was read")
        for what in self._missing():
            self._silent.setdefault(what, self.stopped or "time was over")
        used = {cpu: Entry(u, USE_ERROR) for cpu, u in self._used_cpus.items() if u > 0}
        known = {**self._performance, Quantity.CPU: used} if used else self._performance
        return Measurements(
            performance=known,
            tolerated=self.tolerated,
            caused=self.caused,
            total=self.total,
            silent=self._silent,
            runs=runs,
            seconds=seconds,
        )

    def _missing(self) -> Sequence[str]:
        measured = {cpu for entries in self._performance.values() for cpu in entries}
        missing = [f"performance/{c}" for c in self._job.plan.cpu_millicpus if c not in measured]
        missing += [q.value for q in self.wanted if q not in self._performance]
        for resource in self._job.plan.sources:
            if resource not in self.tolerated:
                missing.append(f"tolerated/{resource.value}")
            if resource not in self.caused:
                missing.append(f"caused/{resource.value}")
        return missing
