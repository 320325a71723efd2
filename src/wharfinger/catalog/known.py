"""The known programs' measurements, and the matrices that they make.

``campaign`` makes a ``KnownPrograms``, ``known_files`` keeps it; a classifier and ``classify
evaluate`` work on its matrices.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

import numpy as np

from wharfinger.classification.utility import Aspect, UtilityMatrix, UtilityRow
from wharfinger.estimators.matrix import Matrix, RowScale, Transform
from wharfinger.model.configuration import Configuration
from wharfinger.model.interference import SharedResource
from wharfinger.model.performance import PROXIES, Quantity, as_performance
from wharfinger.model.profile import Entry, Measurements, Origin
from wharfinger.model.workload import WorkloadType

SCALE = RowScale.ARBITRARY
"""Of ``scale_up``: how fast a program is says nothing of how it gains from CPU."""
SCORE_SCALE = RowScale.NORMALISED
"""Of ``tolerated`` and ``caused``: 0 to 100 mean the same in each row."""
FORMAT = 1
"""Of the files."""


@dataclass(frozen=True, slots=True)
class KnownProgram:
    """One known program.

    Attributes:
        name: Its row's.
        group: The program that it is a run of.
        performance: By quantity and allocation in thousandths of a CPU, as measured.
        tolerated: By source, 0-100.
        caused: By source, 0-100.
    """

    name: str
    group: str
    performance: Mapping[Quantity, Mapping[int, Entry]] = field(default_factory=dict)
    tolerated: Mapping[SharedResource, Entry] = field(default_factory=dict)
    caused: Mapping[SharedResource, Entry] = field(default_factory=dict)

    @classmethod
    def of(cls, name: str, group: str, found: Measurements) -> "KnownProgram":
        """From one profiling; a performance of zero is none, and has no logarithm."""
        performance = {
            quantity: {cpu: entry for cpu, entry in sorted(entries.items()) if entry.value > 0}
            for quantity, entries in found.performance.items()
            if quantity not in PROXIES
        }
        kept = {quantity: entries for quantity, entries in performance.items() if entries}
        return cls(name, group, kept, found.tolerated, found.caused)


@dataclass(frozen=True, slots=True)
class MeasuringMachine:
    """Where, when and how; ``machine.json``.

    Attributes:
        cpu_model: As the kernel names it.
        cpus: That could be used.
        memory_bytes: Of the machine.
        kernel: System, release, architecture.
        measured_at: The end, RFC 3339 in UTC.
        wharfinger: Its version.
        command: That measured them.
        seed: Of the programs' inputs.
        seconds_per_allocation: Of measuring.
        idle_busy_share: Of all CPUs, what others used before it began.
        steal_share: Of all CPUs' time while it was measured, what the hypervisor gave to others.
        skipped: Programs of the catalog that were not measured, and why.
        provisional: Too few programs or too short for classifying anything but a test.
        format: Of these files.
    """

    cpu_model: str
    cpus: int
    memory_bytes: int
    kernel: str
    measured_at: str
    wharfinger: str
    command: str
    seed: int
    seconds_per_allocation: float
    idle_busy_share: float
    steal_share: float
    skipped: Mapping[str, str] = field(default_factory=dict)
    provisional: bool = False
    format: int = FORMAT


@dataclass(frozen=True, slots=True)
class KnownPrograms:
    """All of them, and the matrices for ``wharfinger.estimators``.

    Attributes:
        programs: In the order of the files.
        machine: Where they were measured.
        source: The directory; ``None`` = not from files.
        further: Matrices that are measured on several servers or platforms, where a site has them.
    """

    programs: tuple[KnownProgram, ...]
    machine: MeasuringMachine
    source: Path | None = None
    further: Mapping[Aspect, UtilityMatrix] = field(default_factory=dict)

    @property
    def matrices(self) -> dict[Aspect, UtilityMatrix]:
        """What there is to classify by, entry by entry; those that have no row are left out."""
        own = {
            kind: self._utility(kind) for kind in (Aspect.SCALE_UP, Aspect.TOLERATED, Aspect.CAUSED)
        }
        return {kind: matrix for kind, matrix in (own | {**self.further}).items() if matrix.rows}

    def _utility(self, kind: Aspect) -> UtilityMatrix:
        measured = _epoch_seconds(self.machine.measured_at)
        made = UtilityMatrix(kind, (), {})
        for known in self.programs:
            for name, type_, row in _rows_of(known, kind):
                entries = {
                    column: replace(entry, origin=Origin.OFFLINE, measured_at=measured)
                    for column, entry in row.items()
                }
                made = made.with_row(name, UtilityRow(known.group, type_, entries))
        return replace(made, columns=tuple(sorted(made.columns, key=_order)))

    def without(self, groups: Collection[str]) -> "KnownPrograms":
        """Those that are not runs of these programs: what is known of a program that is new."""
        kept = tuple(known for known in self.programs if known.group not in groups)
        return replace(self, programs=kept)

    @property
    def allocations(self) -> tuple[int, ...]:
        """Thousandths of a CPU that something was measured at, ascending."""
        return tuple(sorted({c for k in self.programs for e in k.performance.values() for c in e}))

    @property
    def scale_up(self) -> Matrix:
        """Performance by CPU: a row for each program and quantity, in logarithms.

        More is better in every row: a latency is in it as 1/seconds (``as_performance``). A
        row is named as its program, with ``/latency`` where that is its quantity.

        Raises:
            InvalidInput: There is no row.
        """
        columns = self.allocations
        rows, groups = {}, []
        for known in self.programs:
            for quantity, entries in known.performance.items():
                suffix = "/latency" if quantity is Quantity.LATENCY else ""
                rows[known.name + suffix] = [
                    as_performance(quantity, entries[cpu].value) if cpu in entries else np.nan
                    for cpu in columns
                ]
                groups.append(known.group)
        return Matrix.of(rows, [str(cpu) for cpu in columns], groups, Transform.LOG)

    @property
    def tolerated(self) -> Matrix:
        """Tolerated interference, 0-100: a row for each program, a column for each source.

        Raises:
            InvalidInput: There is no row.
        """
        return self._scores({known.name: known.tolerated for known in self.programs})

    @property
    def caused(self) -> Matrix:
        """Caused interference, as ``tolerated``.

        Raises:
            InvalidInput: There is no row.
        """
        return self._scores({known.name: known.caused for known in self.programs})

    def _scores(self, found: Mapping[str, Mapping[SharedResource, Entry]]) -> Matrix:
        measured = {source for scores in found.values() for source in scores}
        columns = [source for source in SharedResource if source in measured]
        rows = {
            name: [scores[c].value if c in scores else np.nan for c in columns]
            for name, scores in found.items()
            if scores
        }
        groups = [known.group for known in self.programs if known.name in rows]
        return Matrix.of(rows, columns, groups, Transform.IDENTITY)


def _rows_of(
    known: KnownProgram, kind: Aspect
) -> Iterator[tuple[str, WorkloadType, Mapping[str, Entry]]]:
    """Rows of one program in one matrix: name, type, entries by column."""
    type_ = _type_of(known)
    if kind is not Aspect.SCALE_UP:
        scores = known.tolerated if kind is Aspect.TOLERATED else known.caused
        if scores:
            yield known.name, type_, {str(source): entry for source, entry in scores.items()}
        return
    for quantity, row in known.performance.items():
        suffix = "/latency" if quantity is Quantity.LATENCY else ""
        entries = {
            Configuration(cpu).name: replace(entry, value=as_performance(quantity, entry.value))
            for cpu, entry in row.items()
        }
        yield known.name + suffix, type_, entries


def _type_of(known: KnownProgram) -> WorkloadType:
    """What answers queries is a service."""
    serves = known.performance.keys() & {Quantity.THROUGHPUT, Quantity.LATENCY}
    return WorkloadType.LATENCY_CRITICAL if serves else WorkloadType.SINGLE_NODE


def _order(column: str) -> tuple[int, str]:
    """Configurations by CPU, sources as the model names them."""
    if column.startswith("cpu="):
        return Configuration.parse(column).cpu_millicpus, column
    return list(SharedResource).index(SharedResource(column)), column


def _epoch_seconds(rfc3339: str) -> float | None:
    try:
        return datetime.fromisoformat(rfc3339.replace("Z", "+00:00")).timestamp()
    except ValueError:
        return None
