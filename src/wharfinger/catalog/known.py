"""The known programs' measurements, and the matrices that a classifier gets of them."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from wharfinger.classification.utility import Aspect, UtilityMatrix, UtilityRow
from wharfinger.estimators.matrix import Matrix, RowScale
from wharfinger.model.configuration import Configuration
from wharfinger.model.interference import SharedResource
from wharfinger.model.performance import PROXIES, Quantity, as_performance
from wharfinger.model.profile import Entry, Measurements, Origin
from wharfinger.model.workload import WorkloadType

SCALE = RowScale.ARBITRARY
"""Of ``scale_up``: how fast a program is does not tell how it gains from CPU."""
SCORE_SCALE = RowScale.NORMALISED
"""Of ``tolerated`` and ``caused``: 0 to 100 mean the same in each row."""
FORMAT = 1


@dataclass(frozen=True, slots=True)
class KnownProgram:
    """One known program, as measured; rows of one ``group`` are runs of one program.

    Performance, and the CPU time that it took, is by quantity and allocation in thousandths of a
    CPU; scores are 0-100 by source.
    """

    name: str
    group: str
    performance: Mapping[Quantity, Mapping[int, Entry]] = field(default_factory=dict)
    tolerated: Mapping[SharedResource, Entry] = field(default_factory=dict)
    caused: Mapping[SharedResource, Entry] = field(default_factory=dict)

    @classmethod
    def of(cls, name: str, group: str, measurements: Measurements) -> "KnownProgram":
        """From one profiling; a performance of zero is left out: it has no logarithm."""
        performance = {
            quantity: {cpu: entry for cpu, entry in sorted(entries.items()) if entry.value > 0}
            for quantity, entries in measurements.performance.items()
            if quantity not in PROXIES or quantity is Quantity.CPU
        }
        kept = {quantity: entries for quantity, entries in performance.items() if entries}
        if not kept.keys() - PROXIES:
            kept = {}
        return cls(name, group, kept, measurements.tolerated, measurements.caused)

    def rows(self, kind: Aspect) -> dict[str, dict[str, Entry]]:
        """Its rows in the matrix of one classification, by name and column.

        More is better in every row: a latency is in it as 1/seconds, in a row ``NAME/latency``.
        """
        if kind is not Aspect.SCALE_UP:
            scores = self.scores(kind)
            return {self.name: {str(s): entry for s, entry in scores.items()}} if scores else {}
        return {
            self.name + ("/latency" if quantity is Quantity.LATENCY else ""): {
                Configuration(cpu).name: replace(entry, value=as_performance(quantity, entry.value))
                for cpu, entry in row.items()
            }
            for quantity, row in self.performance.items()
            if quantity not in PROXIES
        }

    def used(self, row: str) -> dict[str, float]:
        """CPUs kept busy while it performed as one of ``rows`` says, by column of scale-up."""
        busy = self.performance.get(Quantity.CPU, {}) if row == self.name else {}
        return {Configuration(cpu).name: entry.value for cpu, entry in busy.items()}

    def scores(self, kind: str) -> Mapping[SharedResource, Entry]:
        """Those of ``tolerated`` or of ``caused`` interference."""
        return self.tolerated if kind == "tolerated" else self.caused

    @property
    def type(self) -> WorkloadType:
        """A service where it answers queries."""
        serves = self.performance.keys() & {Quantity.THROUGHPUT, Quantity.LATENCY}
        return WorkloadType.LATENCY_CRITICAL if serves else WorkloadType.SINGLE_NODE


@dataclass(frozen=True, slots=True)
class MeasuringMachine:
    """Where, when and how; ``machine.json``, of which docs/known-programs.md explains the keys."""

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

    ``further`` are matrices measured on several servers or platforms, where a site has them.
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
        rows = {}
        for program in self.programs:
            for name, row in program.rows(kind).items():
                entries = {
                    column: replace(entry, origin=Origin.OFFLINE, measured_at=measured)
                    for column, entry in row.items()
                }
                used = program.used(name) if kind is Aspect.SCALE_UP else {}
                rows[name] = UtilityRow(program.group, program.type, entries, used)
        columns = {column for made in rows.values() for column in made.entries}
        matrix = UtilityMatrix(kind, tuple(sorted(columns, key=_order)), rows)
        for made in rows.values():
            matrix.check(made.entries.items())
        return matrix

    def without(self, groups: Collection[str]) -> "KnownPrograms":
        """Those that are not runs of these programs: what is known of a program that is new."""
        kept = tuple(program for program in self.programs if program.group not in groups)
        return replace(self, programs=kept)

    @property
    def allocations(self) -> tuple[int, ...]:
        """Thousandths of a CPU that something was measured at, ascending."""
        return tuple(sorted({c for k in self.programs for e in k.performance.values() for c in e}))

    @property
    def scale_up(self) -> Matrix:
        """Logarithms of performance by millicpus, by program; ``InvalidInput``: no row."""
        named = self._matrix(Aspect.SCALE_UP)
        columns = tuple(str(Configuration.parse(name).cpu_millicpus) for name in named.columns)
        return Matrix(named.rows, columns, named.groups, named.values, named.transform)

    @property
    def tolerated(self) -> Matrix:
        """Tolerated interference, 0-100, by program and source; raises as ``scale_up``."""
        return self._matrix(Aspect.TOLERATED)

    @property
    def caused(self) -> Matrix:
        """Caused interference, as ``tolerated``."""
        return self._matrix(Aspect.CAUSED)

    def _matrix(self, kind: Aspect) -> Matrix:
        matrix = self._utility(kind).known_to(None)
        return Matrix.of({}, (), (), kind.transform) if matrix is None else matrix


def _order(column: str) -> tuple[int, str]:
    if column.startswith("cpu="):
        return Configuration.parse(column).cpu_millicpus, column
    return list(SharedResource).index(SharedResource(column)), column


def _epoch_seconds(rfc3339: str) -> float | None:
    try:
        return datetime.fromisoformat(rfc3339.replace("Z", "+00:00")).timestamp()
    except ValueError:
        return None
