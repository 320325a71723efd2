"""The known programs: real ones, measured exhaustively so that new workloads resemble them.

``programs.yaml`` describes them; ``campaign`` measures them; ``known_files`` reads the results.
docs/known-programs.md lists them and says how a demonstration is kept honest.
"""

from collections.abc import Collection, Sequence
from pathlib import Path

import msgspec

from wharfinger.catalog.inputs import make_input
from wharfinger.catalog.program import Program, executables, loop
from wharfinger.errors import InvalidInput

SEED = 20261121
"""Of every input; stands in ``machine.json``."""


def _read(path: Path) -> tuple[Program, ...]:
    entries = msgspec.yaml.decode(path.read_bytes(), type=list[dict[str, object]])
    for entry in entries:
        if isinstance(command := entry["command"], str):
            entry["command"] = loop(command)
    return msgspec.convert(entries, tuple[Program, ...])


PROGRAMS = _read(Path(__file__).with_name("programs.yaml"))


def chosen(names: Collection[str] | None = None) -> tuple[Program, ...]:
    """The programs of these names, in the catalog's order; ``None`` = all.

    Raises:
        InvalidInput: A name is not in the catalog.

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
    """Make a program's inputs in a directory, where they do not exist yet.

    Raises:
        OSError: They can't be written.
    """
    directory.mkdir(parents=True, exist_ok=True)
    for name in program.inputs:
        make_input(name, directory, seed)


def groups_run_by(command: Sequence[str]) -> frozenset[str]:
    """Groups of the catalog that a workload with this command may be a run of.

    By the words of the command: rather one group too many than one too few. An honest evaluation
    classifies without them, so that no workload is recognized by its own row:
    ``KnownPrograms.without(groups_run_by(workload.run.command))``.

    >>> sorted(groups_run_by(["sh", "-c", "gzip -c file | sha256sum"]))
    ['gzip', 'python-deflate', 'sha256sum']
    """
    words = executables(tuple(command))
    return frozenset(p.group for p in PROGRAMS if not words.isdisjoint(p.marks))
