"""What came of an experiment, as JSON and as files: enough to run it again, and to check it.

``wharfinger experiment run`` prints ``as_json`` and, with ``--out DIR``, calls ``write``.
docs/experiments.md lists the files.
"""

import contextlib
import csv
import dataclasses
import gzip
import io
import json
import os
import platform
import re
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from wharfinger import __version__
from wharfinger.errors import Unavailable
from wharfinger.experiments import comparison, plots
from wharfinger.experiments.base import Arguments, Experiment, ExperimentResult
from wharfinger.experiments.workspace import INPUTS, RESULTS, Workspace
from wharfinger.simulator.results.outcome import Fate, Outcome

RUNS, FATES, ABOUT, README, PICTURES = (
    "runs.csv", "fates.csv.gz", "run.json", "README.md", "plots",
)  # fmt: skip
FILES = {
    RESULTS: "the numbers, as `-o json` prints them",
    RUNS: "one line a run: every number of its report",
    FATES: "one line a workload of each run: what became of it",
    ABOUT: "arguments, seeds, versions, machine, and digests of what was read",
}
"""What is always there, and what it is."""


def as_json(result: ExperimentResult, files: Iterable[str] = ()) -> dict[str, Any]:
    """For ``-o json``.

    Args:
        result: What came of it.
        files: That were written.
    """
    return {
        "name": result.name,
        "seeds": list(result.seeds),
        "results": [dataclasses.asdict(row) for row in result.rows],
        "notes": list(result.notes),
        "comparisons": [
            {"name": case, "policies": comparison.as_json(found)}
            for case, found in result.comparisons.items()
        ],
        "files": list(files),
    }


def write(
    space: Workspace, experiment: Experiment, arguments: Arguments, result: ExperimentResult
) -> tuple[ExperimentResult, list[str]]:
    """Write all that belongs to the result into the folder.

    Returns:
        The result, with a note more where pictures could not be drawn; names of the files within
        the folder.

    Raises:
        OSError: A file can't be written.
    """
    folder = space.folder
    result = _draw(folder, result)
    _write_csv(folder / RUNS, list(_run_lines(result)))
    with _zipped(folder / FATES) as file:
        _write_lines(file, ["case", "policy", "seed", *_FATE], _fate_lines(result))
    _write_json(folder / ABOUT, _about(space, experiment, arguments, result))
    (folder / README).write_text(_readme(space, experiment, arguments, result))
    files = sorted([*_names(folder), RESULTS])
    _write_json(folder / RESULTS, as_json(result, files))
    return result, files


def command(experiment: Experiment, arguments: Arguments, tables: str | None) -> str:
    """What repeats it, in a shell.

    Args:
        experiment: Which.
        arguments: What it was told.
        tables: Where its tables are; ``None`` = it has none.
    """
    words = ["wharfinger", "experiment", "run", experiment.name]
    given = {
        "repeats": arguments.repeats,
        "seed": arguments.seed,
        "tables": tables,
        "servers": arguments.servers,
        "workloads": arguments.workloads,
        "regime": arguments.regime,
    }
    for name, value in given.items():
        if value is not None:
            words += [f"--{name}", str(value)]
    return shlex.join([*words, "--out", "again"])


def _names(folder: Path) -> list[str]:
    return [str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()]


# --- pictures ---------------------------------------------------------------------------------


def _draw(folder: Path, result: ExperimentResult) -> ExperimentResult:
    """Without matplotlib, an extra, there are numbers and a note."""
    if not result.pictures:
        return result
    try:
        plots.check()
    except Unavailable as error:
        return dataclasses.replace(result, notes=(*result.notes, f"Nothing was drawn: {error}."))
    (folder / PICTURES).mkdir()
    for name, draw in result.pictures.items():
        plots.save(draw(), folder / PICTURES / name)
    return result


# --- tables -----------------------------------------------------------------------------------

_FATE = [field.name for field in dataclasses.fields(Fate)]


def _runs(result: ExperimentResult) -> Iterator[tuple[str, str, Outcome]]:
    for case, found in result.comparisons.items():
        for policy in found.policies:
            for outcome in policy.outcomes:
                yield case, policy.name, outcome


def _run_lines(result: ExperimentResult) -> Iterator[dict[str, Any]]:
    for case, policy, outcome in _runs(result):
        head = {
            "case": case,
            "policy": policy,
            "admission": outcome.admission,
            "scenario": outcome.scenario,
            "seed": outcome.seed,
        }
        yield head | dict(outcome.summary)


def _fate_lines(result: ExperimentResult) -> Iterator[list[Any]]:
    for case, policy, outcome in _runs(result):
        for fate in outcome.fates:
            yield [case, policy, outcome.seed, *(getattr(fate, name) for name in _FATE)]


def _write_csv(path: Path, lines: list[dict[str, Any]]) -> None:
    header = list(dict.fromkeys(key for line in lines for key in line))
    with path.open("w", newline="") as file:
        _write_lines(file, header, ([line.get(key) for key in header] for line in lines))


def _write_lines(file: io.TextIOBase, header: list[str], lines: Iterable[list[Any]]) -> None:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(map(_cell, line) for line in lines)


def _cell(value: Any) -> Any:
    """As JSON writes it; empty = not known."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value


@contextlib.contextmanager
def _zipped(path: Path) -> Iterator[io.TextIOWrapper]:
    # Neither its name nor the time is written: the same fates make the same bytes.
    with (
        path.open("wb") as file,
        gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as packed,
        io.TextIOWrapper(packed, encoding="utf-8", newline="") as text,
    ):
        yield text


# --- what was run -----------------------------------------------------------------------------


def _about(
    space: Workspace, experiment: Experiment, arguments: Arguments, result: ExperimentResult
) -> dict[str, Any]:
    return {
        "name": experiment.name,
        "about": experiment.about,
        "source": experiment.source,
        "command": command(experiment, arguments, _tables(space, arguments)),
        "arguments": {
            key: str(value) if isinstance(value, Path) else value
            for key, value in dataclasses.asdict(arguments).items()
        },
        "seeds": list(result.seeds),
        "versions": versions(),
        "machine": machine(),
        "inputs": [dataclasses.asdict(each) for each in space.inputs],
    }


def _tables(space: Workspace, arguments: Arguments) -> str | None:
    """From within the folder."""
    if arguments.tables is None:
        return None
    return INPUTS if any(each.kept for each in space.inputs) else str(arguments.tables.absolute())


def versions() -> dict[str, str]:
    """Of what numbers may depend on."""
    return {
        "wharfinger": __version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }


def machine() -> dict[str, Any]:
    """Where it ran: times depend on it, and no other number."""
    model = re.search(r"^model name\s*:\s*(.+)$", _text(Path("/proc/cpuinfo")), re.MULTILINE)
    return {
        "architecture": platform.machine(),
        "cpu_model": model[1].strip() if model else None,
        "cpus": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "kernel": f"{platform.system()} {platform.release()}",
    }


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def _readme(
    space: Workspace, experiment: Experiment, arguments: Arguments, result: ExperimentResult
) -> str:
    made = ", ".join(f"{name} {version}" for name, version in versions().items())
    files = [f"- `{name}`: {words}" for name, words in FILES.items()]
    files += [
        f"- `{path.name}/`: {_FOLDERS[path.name]}"
        for path in sorted(space.folder.iterdir())
        if path.name in _FOLDERS
    ]
    notes = [f"- {note}" for note in result.notes]
    lines = [
        f"# {experiment.name}",
        "",
        f"{experiment.about[0].upper()}{experiment.about[1:]}. Source: {experiment.source}.",
        "",
        f"Made with {made}. In this folder, this does it again:",
        "",
        f"    {command(experiment, arguments, _tables(space, arguments))}",
        "",
        *(["## What it says", "", *notes, ""] if notes else []),
        "## Files",
        "",
        *files,
    ]
    return "\n".join(lines) + "\n"


_FOLDERS = {
    INPUTS: "copies of what was read",
    PICTURES: "pictures, as PNG and SVG",
    "scenarios": "what was simulated",
}


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n")
