"""The known programs: real ones, measured exhaustively so that new workloads resemble them.

Data only: what each program is, what it needs, which input it works on, how it is run.
``campaign`` measures them; ``known_files`` reads what came of it. docs/known-programs.md lists
them and says how a demonstration is kept honest.
"""

from collections.abc import Collection, Sequence
from pathlib import Path

from wharfinger.catalog.entries import LANGUAGES, LIBRARIES, SERVICES, STORAGE, TOOLS
from wharfinger.catalog.inputs import make_input
from wharfinger.catalog.program import Program, executables
from wharfinger.errors import InvalidInput

SEED = 20261121
"""Of every input; stands in ``machine.json``."""

PROGRAMS: tuple[Program, ...] = (
    *TOOLS,
    *STORAGE,
    *LANGUAGES,
    *LIBRARIES,
    *SERVICES,
)


def chosen(names: Collection[str] | None = None) -> tuple[Program, ...]:
    """The programs of these names, in the catalog's order; ``None`` = all.

    Raises:
        InvalidInput: A name is none of the catalog's.

    >>> [program.group for program in chosen(["xz", "gunzip"])]
    ['gzip', 'xz']
    """
    if names is None:
        return PROGRAMS
    known = {program.name for program in PROGRAMS}
    for name in names:
        if name not in known:
            raise InvalidInput(
                f"program {name!r} is not in the catalog; "
                "wharfinger classify measure --list names them"
            )
    return tuple(program for program in PROGRAMS if program.name in names)


def prepare(program: Program, directory: Path, seed: int = SEED) -> None:
    """Make a program's inputs in a directory, where they are not there yet.

    Raises:
        OSError: They can't be written.
    """
    directory.mkdir(parents=True, exist_ok=True)
    for name in program.inputs:
        make_input(name, directory, seed)


def groups_run_by(command: Sequence[str]) -> frozenset[str]:
    """Groups of the catalog that a workload with this command may be a run of.

    By the words of the command: rather one group too many than one too few.

    A demonstration leaves these out of what it classifies by, so that no workload is recognised
    by its own row: ``KnownPrograms.without(groups_run_by(workload.run.command))``.

    >>> sorted(groups_run_by(["sh", "-c", "gzip -c file | sha256sum"]))
    ['gzip', 'python-deflate', 'sha256sum']
    """
    words = executables(tuple(command))
    return frozenset(p.group for p in PROGRAMS if not words.isdisjoint(p.marks))
