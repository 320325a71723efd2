"""Measures the known programs exhaustively, one after another; a killed run can be continued.

Each is profiled as any workload is (Quasar 3.4), but at every allocation and with every source. Its
row is kept at once in a file of its own; the matrices are made of these files at the end.
"""

import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

import msgspec

from wharfinger import __version__
from wharfinger.catalog.known import KnownProgram, KnownPrograms, MeasuringMachine
from wharfinger.catalog.known_files import save_known
from wharfinger.catalog.listing import PROGRAMS, SEED, Program, prepare
from wharfinger.catalog.quiet import CpuTimes, Disturbance
from wharfinger.classification.platforms import platform_column
from wharfinger.classification.utility import Aspect, UtilityMatrix, UtilityRow
from wharfinger.errors import Conflict, EngineFault, InvalidInput, Unavailable
from wharfinger.files.atomic import write_whole
from wharfinger.model.interference import SharedResource
from wharfinger.model.performance import Quantity
from wharfinger.model.platform import MILLICPUS_PER_CPU, Server
from wharfinger.model.profile import (
    PROFILED_SOURCES,
    RAMP_ALLOCATIONS,
    Entry,
    FurtherRun,
    Measurements,
    Origin,
    ProfilingPlan,
)
from wharfinger.model.workload import Workload

_ROWS, WORK = "rows", "work"
_BASE_MILLICPUS = (100, 250, 500, 750, 1000, 1500)

_Measure = Callable[[str, Workload, ProfilingPlan], Measurements]
"""Runs a plan: key, workload, plan; ``LocalProfiler.measure``."""


def allocations(cpus: int, *, fractional: bool = True) -> tuple[int, ...]:
    """The columns: thousandths of a CPU up to the machine's, denser below and at powers of two.

    >>> allocations(2)
    (100, 250, 500, 750, 1000, 1500, 2000)
    >>> allocations(12, fractional=False)
    (1000, 2000, 3000, 4000, 6000, 8000, 12000)
    """
    most = cpus * MILLICPUS_PER_CPU
    beyond = {2**i * part for i in range(1, cpus.bit_length()) for part in (1.0, 1.5)}
    whole = {int(count) * MILLICPUS_PER_CPU for count in beyond if count <= cpus}
    columns = sorted(c for c in {*_BASE_MILLICPUS, *whole, most} if c <= most)
    return tuple(c for c in columns if fractional or c % MILLICPUS_PER_CPU == 0)


@dataclass(frozen=True, slots=True)
class CampaignSettings:
    """What a campaign is asked for; rows that are in its directory already are kept.

    ``seconds`` is at each allocation; ``provisional`` says in ``machine.json`` that it is for tests
    only; ``idle`` is what others used of this machine before it began. Inputs are made in ``work``,
    which the server and those of ``further`` runs (on other platforms) see. ``sources`` are
    injected into all programs.
    """

    directory: Path
    seconds: float
    allocations: tuple[int, ...]
    command: str
    work: Path
    provisional: bool = False
    idle: Disturbance = field(default_factory=lambda: Disturbance(0.0, 0.0))
    further: tuple[FurtherRun, ...] = ()
    sources: tuple[SharedResource, ...] = PROFILED_SOURCES


@dataclass(frozen=True, slots=True)
class _Conditions:
    """Rows can stand in one matrix when these agree."""

    cpu_model: str
    cpus: int
    allocations: tuple[int, ...]
    seconds: float
    platforms: tuple[str, ...] = ()
    sources: tuple[SharedResource, ...] = PROFILED_SOURCES

    def __str__(self) -> str:
        also = f", also on {' and '.join(self.platforms)}" if self.platforms else ""
        return (
            f"{self.cpus} CPUs of {self.cpu_model or 'an unknown model'}, "
            f"{len(self.allocations)} allocations, {self.seconds:g} s each{also}, "
            f"{len(self.sources)} sources"
        )


@dataclass(frozen=True, slots=True)
class _MeasuredRow:
    """One program's file; ``digest`` is of what was run, ``measured_at`` RFC 3339 in UTC."""

    program: str
    group: str
    digest: str
    conditions: _Conditions
    measured_at: str
    seconds: float
    steal_share: float
    measurements: Measurements


@dataclass(frozen=True, slots=True)
class CampaignStep:
    """Progress: the program that begins now, its number from 1, and the time left for all."""

    number: int
    count: int
    program: str
    left_seconds: float


@dataclass(frozen=True, slots=True)
class CampaignOutcome:
    """All rows, which programs were measured or kept, and why others were skipped or failed."""

    known: KnownPrograms
    measured: tuple[str, ...]
    kept: tuple[str, ...]
    skipped: Mapping[str, str]
    failed: Mapping[str, str]


def _plan_for(program: Program, server: str, settings: CampaignSettings) -> ProfilingPlan:
    """A whole CPU comes first, because interference is injected at the first allocation."""
    first = min(settings.allocations, key=lambda cpu: abs(cpu - MILLICPUS_PER_CPU))
    others = [cpu for cpu in settings.allocations if cpu != first]
    return ProfilingPlan(
        server=server,
        cpu_millicpus=(first, *others),
        memory_bytes=program.memory_bytes,
        sources=settings.sources,
        seconds=settings.seconds
        * (len(settings.allocations) + RAMP_ALLOCATIONS * len(settings.sources)),
        further=settings.further,
    )


def run(
    programs: Sequence[Program],
    settings: CampaignSettings,
    server: Server,
    measure: _Measure,
    progress: Callable[[CampaignStep], None] = lambda _: None,
) -> CampaignOutcome:
    """Measure what is not measured yet, and write the matrices.

    Raises:
        Conflict: The directory holds rows of other conditions.
        Unavailable: The directory can't be written, or nothing at all could be measured.
    """
    try:
        return _Campaign(settings, server, measure, progress).run(programs)
    except OSError as error:
        raise Unavailable(
            f"{error.filename or settings.directory}: {error.strerror}; free it, or name another "
            "directory by --out"
        ) from error


@dataclass(frozen=True)
class _Campaign:
    settings: CampaignSettings
    server: Server
    measure: _Measure
    progress: Callable[[CampaignStep], None]

    @cached_property
    def conditions(self) -> _Conditions:
        platform, settings = self.server.platform, self.settings
        return _Conditions(
            platform.cpu_model or platform.name,
            cpus_of(self.server),
            settings.allocations,
            settings.seconds,
            tuple(dict.fromkeys(run.setting.platform for run in settings.further)),
            settings.sources,
        )

    @property
    def rows(self) -> Path:
        return self.settings.directory / _ROWS

    def run(self, programs: Sequence[Program]) -> CampaignOutcome:
        self.rows.mkdir(parents=True, exist_ok=True)
        here = _read_rows(self.rows)
        self._check(here)
        skipped = {p.name: f"needs {', '.join(p.missing())}" for p in programs if p.missing()}
        possible = [program for program in programs if program.name not in skipped]
        kept = [p.name for p in possible if p.name in here and here[p.name].digest == p.digest]
        failed = self._measure_all([p for p in possible if p.name not in kept])
        gathered = self._gather({**skipped, **failed})
        done = tuple(p.name for p in possible if p.name not in {*kept, *failed})
        return CampaignOutcome(gathered, done, tuple(kept), skipped, failed)

    def _check(self, here: Mapping[str, _MeasuredRow]) -> None:
        for row in here.values():
            if row.conditions != self.conditions:
                raise Conflict(
                    f"{self.rows}: {row.program} was measured under other conditions "
                    f"({row.conditions}; now {self.conditions}); "
                    "name another directory by --out, or measure all again by --anew"
                )

    def _measure_all(self, programs: Sequence[Program]) -> dict[str, str]:
        failed = {}
        begun = time.monotonic()
        for number, program in enumerate(programs, start=1):
            plan = _plan_for(program, self.server.name, self.settings)
            # By what the first ones took; before any is done, by the plan.
            each = (time.monotonic() - begun) / (number - 1) if number > 1 else plan.seconds
            left = each * (len(programs) - number + 1)
            self.progress(CampaignStep(number, len(programs), program.name, left))
            try:
                self._measure_one(program, plan)
            except (EngineFault, Unavailable) as error:
                failed[program.name] = str(error)
        return failed

    def _measure_one(self, program: Program, plan: ProfilingPlan) -> None:
        directory = self.settings.work / program.name
        prepare(program, directory)
        earlier, begun = CpuTimes.read(), time.monotonic()
        measurements = self.measure(program.name, program.workload(directory), plan)
        if not KnownProgram.of(program.name, program.group, measurements).performance:
            words = "; ".join(f"{name}: {reason}" for name, reason in measurements.silent.items())
            raise EngineFault(f"nothing was measured: {words or 'no reason is known'}")
        row = _MeasuredRow(
            program.name,
            program.group,
            program.digest,
            self.conditions,
            datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
            time.monotonic() - begun,
            Disturbance.between(earlier, CpuTimes.read()).steal_share,
            measurements,
        )
        write_whole(self.rows / f"{program.name}.json", msgspec.json.encode(row))
        shutil.rmtree(directory, ignore_errors=True)

    def _gather(self, skipped: Mapping[str, str]) -> KnownPrograms:
        rows = _read_rows(self.rows)
        if not rows:
            words = "; ".join(f"{name}: {reason}" for name, reason in skipped.items())
            raise Unavailable(f"no program could be measured: {words or 'none was named'}")
        order = {program.name: number for number, program in enumerate(PROGRAMS)}
        ordered = sorted(rows.values(), key=lambda row: order.get(row.program, len(order)))
        programs = tuple(KnownProgram.of(r.program, r.group, r.measurements) for r in ordered)
        spent = sum(row.seconds for row in ordered)
        steal = sum(row.steal_share * row.seconds for row in ordered) / max(spent, 1e-9)
        system, settings = os.uname(), self.settings
        machine = MeasuringMachine(
            cpu_model=self.conditions.cpu_model,
            cpus=self.conditions.cpus,
            memory_bytes=self.server.platform.memory_bytes,
            kernel=f"{system.sysname} {system.release} {system.machine}",
            measured_at=max(row.measured_at for row in ordered),
            wharfinger=__version__,
            command=settings.command,
            seed=SEED,
            seconds_per_allocation=settings.seconds,
            idle_busy_share=settings.idle.busy_share,
            steal_share=steal,
            skipped=dict(skipped),
            provisional=settings.provisional,
        )
        across = self._across(ordered)
        further = {across.kind: across} if across.rows else {}
        gathered = KnownPrograms(programs, machine, further=further)
        save_known(gathered, settings.directory)
        return gathered

    def _across(self, ordered: Sequence[_MeasuredRow]) -> UtilityMatrix:
        """Performance by platform, where there are several."""
        rows = {}
        for row in ordered:
            measured = _by_platform(row.measurements, self.server.platform.name)
            if not measured:
                continue
            at = datetime.fromisoformat(row.measured_at.replace("Z", "+00:00")).timestamp()
            entries = {
                column: replace(entry, origin=Origin.OFFLINE, measured_at=at)
                for column, entry in measured.items()
            }
            known = KnownProgram.of(row.program, row.group, row.measurements)
            rows[row.program] = UtilityRow(row.group, known.type, entries)
        columns = dict.fromkeys(column for row in rows.values() for column in row.entries)
        return UtilityMatrix(Aspect.HETEROGENEITY, tuple(columns), rows)


def _by_platform(measured: Measurements, reference: str) -> dict[str, Entry]:
    """Performance by platform and allocation; empty where it was measured on one platform only."""
    quantities = (Quantity.THROUGHPUT, Quantity.RATE)
    quantity = next((q for q in quantities if measured.further.get(q)), None)
    if quantity is None:
        return {}
    own = measured.performance.get(quantity, {})
    entries = {platform_column(reference, cpu): entry for cpu, entry in own.items()}
    for run in measured.further[quantity]:
        cpu = run.setting.configuration.cpu_millicpus
        entries[platform_column(run.setting.platform, cpu)] = run.entry
    return {column: entry for column, entry in entries.items() if entry.value > 0}


def _read_rows(directory: Path) -> dict[str, _MeasuredRow]:
    rows = {}
    for path in sorted(directory.glob("*.json")):
        try:
            row = msgspec.json.decode(path.read_bytes(), type=_MeasuredRow)
        except msgspec.MsgspecError as error:
            raise InvalidInput(f"{path}: {error}; remove it to measure it again") from error
        rows[row.program] = row
    return rows


def forget(directory: Path) -> None:
    """Drop all rows, so that everything is measured again; else ``Unavailable``."""
    try:
        for path in (directory / _ROWS).glob("*.json"):
            path.unlink()
    except OSError as error:
        raise Unavailable(f"{error.filename}: {error.strerror}") from error


def clear(work: Path) -> None:
    """Remove inputs and the engine's directory; the engine must be closed."""
    shutil.rmtree(work, ignore_errors=True)


def cpus_of(server: Server) -> int:
    """How many it has, whole."""
    return server.platform.cpu_millicpus // MILLICPUS_PER_CPU
