"""The known programs' measurements: what is in the files, and the matrices they make.

``wharfinger classify measure`` (``wharfinger.profiler.known``) makes a ``KnownPrograms`` and
saves it; a classifier and ``classify evaluate`` load it. docs/known-programs.md states the
format. Four tables and a description lie in one directory:

* ``scale_up.csv``: a row for each program and quantity, a column for each allocation in
  thousandths of a CPU; in the quantity's unit.
* ``tolerated.csv``, ``caused.csv``: a row for each program, a column for each source; 0-100.
* ``noise.csv``: the standard error of every entry above.
* ``machine.json``: where, when and how they were measured.
"""

import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

import numpy as np

from wharfinger.classification import known_files as files
from wharfinger.classification.utility import Kind, UtilityMatrix, UtilityRow
from wharfinger.estimators.matrix import Matrix, Scale, Transform
from wharfinger.model.configuration import Configuration
from wharfinger.model.interference import SharedResource
from wharfinger.model.performance import PROXIES, Quantity
from wharfinger.model.profile import Entry, Measurements, Origin
from wharfinger.model.workload import WorkloadType

SCALE = Scale.ARBITRARY
"""Of ``scale_up``: how fast a program is says nothing of how it gains from CPU."""
SCORE_SCALE = Scale.NORMALISED
"""Of ``tolerated`` and ``caused``: 0 to 100 mean the same in each row."""

SHIPPED = Path(__file__).parents[1] / "data" / "known"
"""Measured by those who made this version, on the machine that its ``machine.json`` names."""


def site_directory() -> Path:
    """Where a site's own measurements lie: ``wharfinger/known`` in the user's XDG data folder."""
    base = os.environ.get("XDG_DATA_HOME", "")
    if not base.startswith("/"):
        base = "~/.local/share"  # the XDG specification: a relative one is no base
    return Path(base).expanduser() / "wharfinger" / "known"


@dataclass(frozen=True, slots=True)
class Known:
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
    def of(cls, name: str, group: str, found: Measurements) -> "Known":
        """From one profiling; a performance of zero is none, and has no logarithm."""
        performance = {
            quantity: {cpu: entry for cpu, entry in sorted(entries.items()) if entry.value > 0}
            for quantity, entries in found.performance.items()
            if quantity not in PROXIES
        }
        kept = {quantity: entries for quantity, entries in performance.items() if entries}
        return cls(name, group, kept, found.tolerated, found.caused)


@dataclass(frozen=True, slots=True)
class Machine:
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
        skipped: Programs of the catalogue that were not measured, and why.
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
    format: int = files.FORMAT


@dataclass(frozen=True, slots=True)
class KnownPrograms:
    """All of them, and the matrices for ``wharfinger.estimators``.

    Attributes:
        programs: In the order of the files.
        machine: Where they were measured.
        source: The directory; ``None`` = not from files.
    """

    programs: tuple[Known, ...]
    machine: Machine
    source: Path | None = None

    @classmethod
    def load(cls, path: Path | None = None) -> "KnownPrograms":
        """Read the files in a directory.

        Args:
            path: ``None`` = the site's own measurements, where there are any, else those that
                are shipped.

        Raises:
            InvalidInput: They are missing or broken: file, line, value, mend, in one line.

        >>> known = KnownPrograms.load(SHIPPED)
        >>> known.scale_up.columns[:2], known.scale_up.transform.value
        (('100', '250'), 'log')
        """
        if path is None:
            site = site_directory()
            path = site if (site / files.MACHINE).exists() else SHIPPED
        machine = files.read_machine(path / files.MACHINE, Machine)
        return cls(tuple(_Reader(path).read().values()), machine, path)

    def save(self, directory: Path) -> None:
        """Write the files; each appears whole, ``machine.json`` last.

        Raises:
            OSError: They can't be written.
        """
        files.write(directory, self)

    @property
    def matrices(self) -> dict[Kind, UtilityMatrix]:
        """What there is to classify by, entry by entry.

        ``scale-up``, ``tolerated`` and ``caused`` are of these programs. Scale-out, heterogeneity
        and the exhaustive matrix are measured on several servers or platforms: where a site has
        them, they lie as ``scale-out.csv``, ``heterogeneity.csv`` and ``exhaustive.csv`` beside
        the others, in the form of ``UtilityMatrix.write``.

        Raises:
            InvalidInput: One of those files is broken.
        """
        found = {kind: self._utility(kind) for kind in (Kind.SCALE_UP, Kind.TOLERATED, Kind.CAUSED)}
        for kind in (Kind.SCALE_OUT, Kind.HETEROGENEITY, Kind.EXHAUSTIVE):
            path = self.source / f"{kind.value}.csv" if self.source else None
            if path is not None and path.exists():
                found[kind] = UtilityMatrix.read(kind, path)
        return {kind: matrix for kind, matrix in found.items() if matrix.rows}

    def _utility(self, kind: Kind) -> UtilityMatrix:
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


def _rows_of(known: Known, kind: Kind) -> Iterator[tuple[str, WorkloadType, Mapping[str, Entry]]]:
    """Rows of one program in one matrix: name, type, entries by column."""
    type_ = _type_of(known)
    if kind is not Kind.SCALE_UP:
        scores = known.tolerated if kind is Kind.TOLERATED else known.caused
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


def _type_of(known: Known) -> WorkloadType:
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


class _Reader:
    """Puts one program's rows of the several tables together."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._errors, self._censored = files.read_noise(path / files.NOISE)
        self._rows: dict[str, Known] = {}

    def read(self) -> dict[str, Known]:
        """All programs by name, in the order of the tables."""
        for line in files.read_scale_up(self._path / files.SCALE_UP):
            known = self._known(line)
            entries = {int(cpu): self._entry(line, line.quantity, cpu) for cpu in line.values}
            performance = {**known.performance, Quantity(line.quantity): entries}
            self._rows[line.program] = replace(known, performance=performance)
        for line in files.read_scores(self._path / files.TOLERATED_CSV, files.TOLERATED):
            self._rows[line.program] = replace(
                self._known(line), tolerated=self._scores(line, files.TOLERATED)
            )
        for line in files.read_scores(self._path / files.CAUSED_CSV, files.CAUSED):
            self._rows[line.program] = replace(
                self._known(line), caused=self._scores(line, files.CAUSED)
            )
        return self._rows

    def _known(self, line: files.Line) -> Known:
        return self._rows.get(line.program, Known(line.program, line.group))

    def _scores(self, line: files.Line, kind: str) -> dict[SharedResource, Entry]:
        return {SharedResource(name): self._entry(line, kind, name) for name in line.values}

    def _entry(self, line: files.Line, kind: str, column: str) -> Entry:
        key = (line.program, kind, column)
        return Entry(line.values[column], self._errors.get(key, 0.0), key in self._censored)


def as_performance(quantity: Quantity, value: float) -> float:
    """In a scale on which more is better; applied twice it gives the value again.

    >>> as_performance(Quantity.LATENCY, 0.004), as_performance(Quantity.RATE, 12.0)
    (250.0, 12.0)
    """
    return 1 / value if quantity is Quantity.LATENCY else value
