"""Collects one plan's entries for its ``Measurements``; filled by ``interpreter``."""

from collections.abc import Callable, Mapping, Sequence

from wharfinger.ibench.ramp import Tolerance
from wharfinger.model.configuration import Setting
from wharfinger.model.interference import SharedResource
from wharfinger.model.performance import Quantity
from wharfinger.model.profile import Entry, Measurements, ProfilingPlan, SettingEntry
from wharfinger.profiling.scores import (
    PERFORMANCES,
    USE_ERROR,
    capacity,
    caused_on_cpu,
    mean,
    tolerated,
)
from wharfinger.profiling.steps import RunFailed, Stretch

Judge = Callable[[Sequence[tuple[float, float]], tuple[str | int, ...]], Entry | None]
"""Makes an entry of values, each with its seconds, and of what they are of."""


def by_spread(told: Sequence[tuple[float, float]], what: tuple[str | int, ...]) -> Entry | None:
    """An entry whose error is estimated from the spread of the values."""
    del what
    return mean(told)


class Observations:
    """Entries, and why others are missing; the attributes are as in ``Measurements``.

    ``wanted`` are the quantities of the workload's target, ``cpus`` the server's, ``total`` is the
    work when all is done. Interference caused on ``seen_at_source`` is seen at the source.
    ``stopped`` says why the plan ended before its time, ``out_of_memory_bytes`` as ``RunFailed``.
    """

    def __init__(
        self,
        plan: ProfilingPlan,
        *,
        wanted: Sequence[Quantity] = (),
        cpus: int = 1,
        seen_at_source: frozenset[SharedResource] = frozenset(SharedResource),
        judge: Judge = by_spread,
        total: float | None = None,
    ) -> None:
        self.wanted = wanted
        self.tolerated: dict[SharedResource, Entry] = {}
        self.caused: dict[SharedResource, Entry] = {}
        self.total = total
        self.beside: dict[str, Entry] = {}
        self.upon: dict[str, Entry] = {}
        self.stopped = ""
        self.out_of_memory_bytes = 0
        self._plan = plan
        self._cpus = cpus
        self._seen_at_source = seen_at_source
        self._judge = judge
        self._performance: dict[Quantity, dict[int, Entry]] = {}
        self._further: dict[Quantity, list[SettingEntry]] = {}
        self._silent: dict[str, str] = {}
        self._used_cpus: dict[int, float] = {}

    def entries(
        self, stretches: Sequence[Stretch], at: int, *, further: bool = False
    ) -> Mapping[Quantity, Entry]:
        """The entries that stretches at one allocation make, or in a run elsewhere."""
        entries = {}
        for quantity in (*PERFORMANCES, Quantity.CPU):
            told = [(s.seconds, s.values[quantity]) for s in stretches if quantity in s.values]
            what = "further" if further else str(quantity)
            entry = self._judge(told, (what, at)) if told else None
            if entry is not None:
                entries[quantity] = entry
        return entries

    def add_performance(
        self, cpu_millicpus: int, stretches: Sequence[Stretch], used_cpus: float | None = None
    ) -> None:
        """Set the performance at an allocation; without ``used_cpus`` the former CPU use stays."""
        if used_cpus is not None:
            self._used_cpus[cpu_millicpus] = used_cpus
        used = self._used_cpus.get(cpu_millicpus)
        for quantity, told in self.entries(stretches, cpu_millicpus).items():
            # A service with little load answers little, whatever its capacity.
            asked = quantity is Quantity.THROUGHPUT and used
            entry = capacity(told, cpu_millicpus, used) if asked and used else told
            self._performance.setdefault(quantity, {})[cpu_millicpus] = entry
            self._silent.pop(f"performance/{cpu_millicpus}", None)

    def add_further(self, place: int, setting: Setting, stretches: Sequence[Stretch]) -> None:
        """Add the performance in a run elsewhere."""
        for quantity, entry in self.entries(stretches, place, further=True).items():
            if entry.value > 0:
                self._further.setdefault(quantity, []).append(SettingEntry(setting, entry))

    def add_beside(self, program: str, program_alone: float, both: Stretch) -> None:
        """Add the performance of the workload and a known program together, over each alone."""
        first = self._plan.cpu_millicpus[0]
        for quantity, value in both.values.items():
            alone = self._performance.get(quantity, {}).get(first)
            if alone is not None and alone.value > 0:
                self._put(self.beside, program, value / alone.value, "beside")
                if program_alone > 0 and both.neighbor is not None:
                    self._put(self.upon, program, both.neighbor / program_alone, "upon")

    def add_no_room_beside(self, program: str) -> None:
        """Note that the two do not fit on one server."""
        self._put(self.beside, program, 0.0, "beside")
        self._put(self.upon, program, 0.0, "upon")

    def _put(self, entries: dict[str, Entry], program: str, ratio: float, what: str) -> None:
        entry = self._judge([(1.0, ratio)], (what, program))
        if entry is not None:
            entries[program] = entry

    def add_cpu_use(self, used_cpus: Sequence[float]) -> None:
        """Add CPU seconds per second, alone at the first allocation.

        What it causes on a CPU shows without the source, wherever interference is measured.
        """
        if used_cpus and self._plan.sources:
            self.caused[SharedResource.INTEGER] = caused_on_cpu(used_cpus, self._cpus)

    def add_ramp(
        self, resource: SharedResource, ramped: Tolerance, over_at: float | None = None
    ) -> None:
        """Add a ramp's result, if any; ``over_at`` is the intensity at which time was over."""
        if ramped.low > 0 or not ramped.censored:
            self.tolerated[resource] = tolerated(ramped)
        if over_at is not None and ramped.censored:
            reason = f"time was over at intensity {over_at:g}"
            bound = ": a lower bound" if ramped.low > 0 else ""
            self.silence(f"tolerated/{resource.value}", reason + bound)

    def is_slowed(self, resource: SharedResource) -> bool:
        """Whether the source was seen to slow the workload."""
        entry = self.tolerated.get(resource)
        return entry is not None and not entry.censored

    def add_caused(self, resource: SharedResource, outcome: Entry | str | None) -> None:
        """Add what the workload causes, or why that is unknown."""
        if isinstance(outcome, Entry):
            self.caused[resource] = outcome
        elif outcome is not None:
            self.silence(f"caused/{resource.value}", outcome)

    def silence_source(self, resource: SharedResource, reason: str) -> None:
        """Say why a source can't be used."""
        self.silence(f"tolerated/{resource.value}", reason)
        if resource in self._seen_at_source:
            self.silence(f"caused/{resource.value}", reason)

    def silence_sources(self, reason: str) -> None:
        """Say why no more sources are injected."""
        for resource in self._plan.sources:
            if resource not in self.tolerated:
                self.silence(f"tolerated/{resource.value}", reason)

    def silence(self, what: str, reason: str) -> None:
        """Say why something is absent, or is only a bound."""
        self._silent[what] = reason

    def neighbor_fell(self, resource: SharedResource, name: str) -> None:
        """The source was withdrawn, and no other is injected."""
        reason = f"withdrawn: {name} fell below its target; a lower bound"
        self.silence(f"tolerated/{resource.value}", reason)
        self.stopped = f"{name} fell below its target beside {resource.value}"

    @property
    def is_idle(self) -> bool:
        """Whether no performance above 0 was seen."""
        rows = self._performance.values()
        return not any(entry.value > 0 for row in rows for entry in row.values())

    def measurements(self, *, runs: int, seconds: float, platform: str = "") -> Measurements:
        """All of it, with a reason for each missing number; raises ``RunFailed`` without any."""
        if not self._performance and not self.caused:
            why = self.stopped or "; ".join(self._silent.values()) or "nothing was read"
            raise RunFailed(why, self.out_of_memory_bytes)
        for what in self._missing():
            self._silent.setdefault(what, self.stopped or "time was over")
        used = {cpu: Entry(u, USE_ERROR) for cpu, u in self._used_cpus.items() if u > 0}
        return Measurements(
            performance={**self._performance, Quantity.CPU: used} if used else self._performance,
            tolerated=self.tolerated,
            caused=self.caused,
            total=self.total,
            silent=self._silent,
            runs=runs,
            seconds=seconds,
            platform=platform,
            further={quantity: tuple(rows) for quantity, rows in self._further.items()},
            beside=self.beside,
            upon=self.upon,
        )

    def _missing(self) -> Sequence[str]:
        measured = {cpu for entries in self._performance.values() for cpu in entries}
        missing = [f"performance/{c}" for c in self._plan.cpu_millicpus if c not in measured]
        missing += [q.value for q in self.wanted if q not in self._performance]
        for resource in self._plan.sources:
            if resource not in self.tolerated:
                missing.append(f"tolerated/{resource.value}")
            if resource not in self.caused:
                missing.append(f"caused/{resource.value}")
        return missing
