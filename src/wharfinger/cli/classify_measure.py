"""``wharfinger classify measure``: the known programs, on this machine; needs no manager."""

import argparse
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from wharfinger.catalog import campaign
from wharfinger.catalog.known_files import site_directory
from wharfinger.catalog.listing import chosen
from wharfinger.catalog.program import Program
from wharfinger.catalog.quiet import Disturbance, watch
from wharfinger.cli import format as fmt
from wharfinger.cli.format import Record, column, show, table
from wharfinger.cli.main import FAILED, OK
from wharfinger.cli.progress import status_line
from wharfinger.engines.local.profiler import LocalProfiler
from wharfinger.errors import Conflict, InvalidInput, Unavailable

DEFAULT_SECONDS = 1.0
MAX_BUSY, MAX_STEAL = 0.05, 0.02
"""Of all CPUs' time: beyond these the numbers would say more of the others than of the programs."""
WATCH_SECONDS = 2.0


def run(arguments: argparse.Namespace) -> int:
    """Measure, or list what would be."""
    names = None if arguments.only is None else arguments.only.split(",")
    programs = chosen(names)
    if arguments.list:
        rows = [_listed(program) for program in programs]
        show(rows, arguments.output, lambda: table(rows, LIST))
        return OK
    if arguments.seconds == 0:
        raise InvalidInput("--seconds: 0; give a time above 0")
    idle = _quiet(anyway=arguments.busy)
    directory = Path(arguments.out).absolute() if arguments.out else site_directory()
    if arguments.anew:
        campaign.forget(directory)
    outcome = _measure(arguments, programs, directory, idle)
    document = _document(outcome, directory)
    show(document, arguments.output, lambda: _text(document))
    return FAILED if outcome.failed else OK


def _quiet(*, anyway: bool) -> Disturbance:
    """What others use of this machine.

    Raises:
        Conflict: Too much.
    """
    found = watch(WATCH_SECONDS)
    disturbed = found.busy_share > MAX_BUSY or found.steal_share > MAX_STEAL
    if disturbed and not anyway:
        raise Conflict(
            f"this machine is not quiet: others use {found.busy_share:.0%} of its CPUs' time and "
            f"{found.steal_share:.0%} is stolen; wait, or go on all the same by --busy"
        )
    return found


def _measure(
    arguments: argparse.Namespace,
    programs: tuple[Program, ...],
    directory: Path,
    idle: Disturbance,
) -> campaign.CampaignOutcome:
    engine = LocalProfiler(directory / campaign.WORK / "engine")
    with _cleared(directory), engine as profiler:
        if not profiler.profiles:
            raise Unavailable("programs can't be run in profiling copies here; see docs/sandbox.md")
        server = profiler.server
        cpus = campaign.cpus_of(server)
        settings = campaign.CampaignSettings(
            directory=directory,
            seconds=arguments.seconds or DEFAULT_SECONDS,
            allocations=campaign.allocations(cpus, fractional=profiler.fractional),
            command=_command(arguments),
            provisional=arguments.provisional,
            idle=idle,
        )
        with status_line() as tell:
            return campaign.run(
                programs, settings, server, profiler.measure, lambda step: tell(_progress(step))
            )


@contextmanager
def _cleared(directory: Path) -> Iterator[None]:
    """Inputs and the engine's directory go when the engine is closed."""
    try:
        yield
    finally:
        campaign.clear(directory)


def _command(arguments: argparse.Namespace) -> str:
    """That which gives the same again; where it wrote to is left out."""
    words = ["wharfinger", "classify", "measure"]
    words += ["--only", arguments.only] if arguments.only else []
    words += ["--seconds", f"{arguments.seconds:g}s"] if arguments.seconds else []
    words += ["--busy"] if arguments.busy else []
    words += ["--provisional"] if arguments.provisional else []
    return shlex.join(words)


def _progress(step: campaign.CampaignStep) -> str:
    left = fmt.duration(step.left_seconds)
    return f"{step.number}/{step.count} {step.program}, {left} left"


def _document(outcome: campaign.CampaignOutcome, directory: Path) -> Record:
    machine = outcome.known.machine
    return {
        "directory": str(directory),
        "programs": len(outcome.known.programs),
        "measured": list(outcome.measured),
        "kept": list(outcome.kept),
        "skipped": [{"name": name, "reason": why} for name, why in outcome.skipped.items()],
        "failed": [{"name": name, "reason": why} for name, why in outcome.failed.items()],
        "idle_busy_share": machine.idle_busy_share,
        "steal_share": machine.steal_share,
    }


def _text(document: Record) -> str:
    head = (
        f"{document['programs']} known programs in {document['directory']}: "
        f"{len(document['measured'])} measured now, {len(document['kept'])} kept"
    )
    lines = [
        head,
        *(f"skipped {item['name']}: {item['reason']}" for item in document["skipped"]),
        *(f"failed {item['name']}: {item['reason']}" for item in document["failed"]),
    ]
    if document["steal_share"] > MAX_STEAL:
        lines.append(f"{document['steal_share']:.1%} of the CPUs' time was stolen meanwhile")
    return "\n".join(lines)


def _listed(program: Program) -> Record:
    return {
        "name": program.name,
        "group": program.group,
        "kind": str(program.kind),
        "threads": program.threads,
        "needs": sorted(set(program.binaries.values())),
        "missing": list(program.missing()),
    }


LIST = [
    column("PROGRAM", "name"),
    column("GROUP"),
    column("KIND"),
    column("THREADS"),
    column("NEEDS", form=lambda names: fmt.text(" ".join(names))),
    column("MISSING", form=lambda names: fmt.text(" ".join(names))),
]
