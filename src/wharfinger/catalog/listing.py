"""The known programs: real ones, measured exhaustively so that new workloads resemble them.

docs/known-programs.md lists them and says how a demonstration is kept honest.
"""

import shlex
import shutil
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2s
from pathlib import Path

import msgspec

from wharfinger.catalog.inputs import make_input
from wharfinger.errors import InvalidInput
from wharfinger.model.workload import (
    LatencyBound,
    Measure,
    Reservation,
    Restart,
    Run,
    Target,
    Workload,
    WorkloadType,
)

MEBIBYTE = 1024**2
PROGRESS = r"done=(\d+)"
PORT = 7411
"""Where services listen. Their copies have a network of their own, so it is free there."""


class Category(StrEnum):
    """What a program does, for people."""

    COMPRESSION = "compression"
    HASHING = "hashing"
    TEXT = "text"
    SORTING = "sorting"
    DATABASE = "database"
    NUMERIC = "numeric"
    INTERPRETER = "interpreter"
    COMPILER = "compiler"
    IMAGE = "image"
    STORAGE = "storage"
    SERVICE = "service"


@dataclass(frozen=True, slots=True)
class Program:
    """One program on one input.

    Attributes:
        name: Unique in the catalog; its row's name, and a DNS label.
        group: The program that it is a run of: rows of one group are no news to one another.
        command: Run in the directory of its inputs; ``{python}`` stands for wharfinger's
            interpreter, ``{port}`` for a service's port.
        marks: Words of which one stands in any command that runs this program or does its work
            by other means; by them a workload is known to be of its group.
        binaries: What it needs on the path, each with the Debian package that has it.
        threads: How many CPUs it can use at once.
        load: For a service: the load generator's command; its report is the measure.
    """

    name: str
    group: str
    kind: Category
    command: tuple[str, ...]
    marks: tuple[str, ...]
    binaries: Mapping[str, str]
    inputs: tuple[str, ...] = ()
    memory_bytes: int = 256 * MEBIBYTE
    threads: int = 1
    load: tuple[str, ...] | None = None

    @property
    def digest(self) -> str:
        """Changes whenever what is run changes; the same on every machine."""
        said = (self.name, self.command, self.inputs, self.memory_bytes, self.load)
        return blake2s(repr((*said, [])).encode()).hexdigest()[:16]

    def missing(self) -> tuple[str, ...]:
        """Debian packages without which it can't run here; empty = it can."""
        return tuple(
            sorted({deb for name, deb in self.binaries.items() if shutil.which(name) is None})
        )

    def workload(self, directory: Path, *, port: int = PORT) -> Workload:
        """The workload, run where its inputs are; the target only selects what is read."""
        kind, target = WorkloadType.BATCH, Target(rate_per_second=1.0)
        measure, restart = Measure(progress_regex=PROGRESS), Restart()
        if self.load is not None:
            kind = WorkloadType.LATENCY_CRITICAL
            target = Target(throughput_per_second=1.0, latency=LatencyBound(99.0, 1.0))
            measure = Measure(load_command=_filled(self.load, port), load_regex=LOAD_REPORT)
            restart = Restart(never_stated=True)
        run = Run(_filled(self.command, port), {}, str(directory.absolute()), 1.0, restart=restart)
        return Workload(
            name=self.name,
            type=kind,
            run=run,
            target=target,
            reservation=Reservation(1000, self.memory_bytes),
            measure=measure,
        )


LOAD_REPORT = (
    r"(?:offered=(?P<offered>[0-9.]+) )?"
    r"throughput=(?P<throughput>[0-9.]+) latency_ms=(?P<latency_ms>[0-9.]+)"
)
"""A line of ``wharfinger.catalog.programs.load``."""


def _filled(command: tuple[str, ...], port: int) -> tuple[str, ...]:
    return tuple(
        word.replace("{python}", sys.executable).replace("{port}", str(port)) for word in command
    )


def _loop(work: str) -> tuple[str, ...]:
    """A shell that does the work again and again, and counts; ends when the work fails.

    >>> _loop("gzip -c words.txt >/dev/null")[2]
    'i=0; while gzip -c words.txt >/dev/null; do i=$((i+1)); echo done=$i; done; exit 1'
    """
    return ("sh", "-c", f"i=0; while {work}; do i=$((i+1)); echo done=$i; done; exit 1")


def _executables(command: tuple[str, ...]) -> frozenset[str]:
    """The names of all that a command might run: its words, and those of a script in it.

    >>> sorted(_executables(("sh", "-c", "while gzip -c x; do :; done")) & {"gzip", "sh", "xz"})
    ['gzip', 'sh']
    """
    names: set[str] = set()
    for word in command:
        try:
            parts = shlex.split(word.replace(";", " "), comments=False)
        except ValueError:
            parts = [word]
        names.update(Path(part).name for part in (word, *parts) if part)
    return frozenset(names)


SEED = 20261121
"""Of every input; stands in ``machine.json``."""


def _read(path: Path) -> tuple[Program, ...]:
    entries = msgspec.yaml.decode(path.read_bytes(), type=list[dict[str, object]])
    for entry in entries:
        if isinstance(command := entry["command"], str):
            entry["command"] = _loop(command)
    return msgspec.convert(entries, tuple[Program, ...])


PROGRAMS = _read(Path(__file__).with_name("programs.yaml"))


def chosen(names: Collection[str] | None = None) -> tuple[Program, ...]:
    """The programs of these names, in the catalog's order, else ``InvalidInput``; ``None`` = all.

    >>> [program.group for program in chosen(["xz", "gunzip"])]
    ['gzip', 'xz']
    """
    if names is None:
        return PROGRAMS
    for name in names:
        if all(name != program.name for program in PROGRAMS):
            raise InvalidInput(
                f"program {name!r} is not in the catalog; "
                "wharfinger classify measure --list names them"
            )
    return tuple(program for program in PROGRAMS if program.name in names)


def prepare(program: Program, directory: Path, seed: int = SEED) -> None:
    """Make a program's inputs in a directory, where they do not exist yet; else ``OSError``."""
    directory.mkdir(parents=True, exist_ok=True)
    for name in program.inputs:
        make_input(name, directory, seed)


def groups_run_by(command: Sequence[str]) -> frozenset[str]:
    """Groups of the catalog that a workload with this command may be a run of, by its words.

    An honest evaluation classifies without them, so that no workload is recognized by its own row:
    ``KnownPrograms.without(groups_run_by(workload.run.command))``.

    >>> sorted(groups_run_by(["sh", "-c", "gzip -c file | sha256sum"]))
    ['gzip', 'python-deflate', 'sha256sum']
    """
    words = _executables(tuple(command))
    return frozenset(p.group for p in PROGRAMS if not words.isdisjoint(p.marks))
