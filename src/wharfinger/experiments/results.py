"""The result of an experiment as JSON and as files: enough to repeat and to check it.

``wharfinger experiment run`` prints ``as_json`` and, with ``--out DIR``, calls ``write``.
docs/experiments.md lists the files.
"""

import dataclasses
import json
import os
import platform
import re
import shlex
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from wharfinger import __version__
from wharfinger.errors import Unavailable
from wharfinger.experiments import comparison, plots
from wharfinger.experiments.base import Arguments, ExperimentResult
from wharfinger.experiments.registry import Experiment
from wharfinger.experiments.workspace import INPUTS, RESULTS, Workspace

RUNS, FATES, ABOUT, README, PICTURES = (
    "runs.csv", "fates.csv.gz", "run.json", "README.md", "plots",
)  # fmt: skip
FILES = {
    RESULTS: "the numbers, as `-o json` prints them",
    RUNS: "one line a run: every number of its report",
    FATES: "one line a workload of each run: what became of it",
    ABOUT: "arguments, seeds, versions, machine, and digests of what was read",
}
"""Written in any case, with a description."""
FOLDERS = {
    INPUTS: "copies of what was read",
    PICTURES: "pictures, as PNG and SVG",
    "scenarios": "what was simulated",
}


def as_json(result: ExperimentResult, files: Iterable[str] = ()) -> dict[str, Any]:
    """For ``-o json``; ``files`` are the names of those that were written."""
    return {
        "name": result.name,
        "seeds": list(result.seeds),
        "results": [dataclasses.asdict(row) for row in result.rows],
        "notes": list(result.notes),
        "comparisons": [
            {"name": case, "policies": comparison.as_json(each)}
            for case, each in result.comparisons.items()
        ],
        "files": list(files),
    }


def write(
    space: Workspace, experiment: Experiment, arguments: Arguments, result: ExperimentResult
) -> tuple[ExperimentResult, list[str]]:
    """Write all files of the result into the folder.

    Returns:
        The result, with a further note if pictures could not be drawn; names of the files within
        the folder.

    Raises:
        OSError: A file can't be written.
    """
    folder = space.folder
    result = _draw(folder, result)
    _write_runs(folder / RUNS, result)
    _join_fates(space, folder / FATES)
    again = command(experiment, arguments, _tables(space, arguments))
    _write_json(folder / ABOUT, _about(space, experiment, arguments, again))
    (folder / README).write_text(_readme(folder, experiment, result, again))
    names = [str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()]
    files = sorted([*names, RESULTS])
    _write_json(folder / RESULTS, as_json(result, files))
    return result, files


def command(experiment: Experiment, arguments: Arguments, tables: str | None) -> str:
    """The shell command that repeats it, with the path of its tables, if any."""
    words = ["wharfinger", "experiment", "run", experiment.name]
    options = ("repeats", "seed", "tables", "servers", "workloads", "scale", "regime")
    values = {name: getattr(arguments, name) for name in options} | {"tables": tables}
    for name, value in values.items():
        if value is not None:
            words += [f"--{name}", str(value)]
    return shlex.join([*words, "--out", "again"])


def _draw(folder: Path, result: ExperimentResult) -> ExperimentResult:
    """Without matplotlib, an extra, add a note instead."""
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


def _write_runs(path: Path, result: ExperimentResult) -> None:
    lines = [
        {"case": case, "policy": policy.name, "admission": run.admission, "scenario": run.scenario}
        | {"seed": run.seed, **run.summary}
        for case, compared in result.comparisons.items()
        for policy in compared.policies
        for run in policy.runs
    ]
    header = list(dict.fromkeys(key for line in lines for key in line))
    comparison.write_rows(path, [header, *([line.get(key) for key in header] for line in lines)])


def _join_fates(space: Workspace, path: Path) -> None:
    comparison.write_rows(path, [comparison.JOB_COLUMNS])
    if space.fates is None or not space.fates.exists():
        return
    with path.open("ab") as file:
        for part in sorted(space.fates.iterdir()):
            file.write(part.read_bytes())
    shutil.rmtree(space.fates)


def _about(
    space: Workspace, experiment: Experiment, arguments: Arguments, again: str
) -> dict[str, Any]:
    tables = arguments.tables and str(arguments.tables)
    return {
        "name": experiment.name,
        "about": experiment.about,
        "source": experiment.source,
        "command": again,
        "arguments": dataclasses.asdict(arguments) | {"tables": tables},
        "seeds": list(arguments.seeds),
        "versions": _versions(),
        "machine": _machine(),
        "inputs": [dataclasses.asdict(each) for each in space.inputs],
    }


def _tables(space: Workspace, arguments: Arguments) -> str | None:
    if arguments.tables is None:
        return None
    return INPUTS if any(each.kept for each in space.inputs) else str(arguments.tables.absolute())


def _versions() -> dict[str, str]:
    python = platform.python_version()
    return {"wharfinger": __version__, "numpy": np.__version__, "python": python}


def _machine() -> dict[str, Any]:
    try:
        cpuinfo = Path("/proc/cpuinfo").read_text(errors="replace")
    except OSError:
        cpuinfo = ""
    model = re.search(r"^model name\s*:\s*(.+)$", cpuinfo, re.MULTILINE)
    return {
        "architecture": platform.machine(),
        "cpu_model": model[1].strip() if model else None,
        "cpus": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "kernel": f"{platform.system()} {platform.release()}",
    }


def _readme(folder: Path, experiment: Experiment, result: ExperimentResult, again: str) -> str:
    made = ", ".join(f"{name} {version}" for name, version in _versions().items())
    there = [path.name for path in sorted(folder.iterdir()) if path.name in FOLDERS]
    files = [f"- `{name}`: {words}" for name, words in FILES.items()]
    files += [f"- `{name}/`: {FOLDERS[name]}" for name in there]
    notes = [f"- {note}" for note in result.notes]
    says = ["## What it says", "", *notes, ""] if notes else []
    about = f"{experiment.about[0].upper()}{experiment.about[1:]}. Source: {experiment.source}."
    lines = [f"# {experiment.name}", "", about, ""]
    lines += [f"Made with {made}. In this folder, this does it again:", "", f"    {again}", ""]
    return "\n".join([*lines, *says, "## Files", "", *files]) + "\n"


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n")
