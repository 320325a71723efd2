"""``wharfinger classify measure``: the known programs, on this machine; needs no manager."""

import argparse
import contextlib
import shlex
from pathlib import Path

from wharfinger.catalog import campaign
from wharfinger.catalog.known_files import site_directory
from wharfinger.catalog.listing import Program, chosen
from wharfinger.catalog.quiet import Disturbance, watch
from wharfinger.cli import format as fmt
from wharfinger.cli.main import FAILED, OK
from wharfinger.cli.output import Record, column, show, table
from wharfinger.cli.progress import Progress
from wharfinger.engines.local.profiler import LocalProfiler
from wharfinger.errors import Conflict, Unavailable

MAX_BUSY, MAX_STEAL = 0.05, 0.02
"""Of all CPUs' time: above these, the numbers would say more of the others than of the programs."""
WATCH_SECONDS = 2.0


def run(arguments: argparse.Namespace) -> int:
    """Measure, or list the programs."""
    programs = chosen(None if arguments.only is None else arguments.only.split(","))
    if arguments.list:
        rows = [_listed(program) for program in programs]
        show(rows, arguments.output, lambda: table(rows, _LIST))
        return OK
    idle = _quiet(anyway=arguments.busy)
    directory = Path(arguments.out).absolute() if arguments.out else site_directory()
    if arguments.anew:
        campaign.forget(directory)
    outcome = _measure(arguments, programs, directory, idle)
    document = _document(outcome, directory)
    show(document, arguments.output, lambda: _text(document))
    return FAILED if outcome.failed else OK


def _quiet(*, anyway: bool) -> Disturbance:
    """What others use of this machine; ``Conflict`` where that is too much."""
    others = watch(WATCH_SECONDS)
    disturbed = others.busy_share > MAX_BUSY or others.steal_share > MAX_STEAL
    if disturbed and not anyway:
        raise Conflict(
            f"this machine is not quiet: others use {others.busy_share:.0%} of its CPUs' time and "
            f"{others.steal_share:.0%} is stolen; wait, or measure all the same with --busy"
        )
    return others


def _measure(
    arguments: argparse.Namespace, programs: tuple[Program, ...], directory: Path, idle: Disturbance
) -> campaign.CampaignOutcome:
    with contextlib.ExitStack() as stack:
        # Inputs and the engine's directory are removed after the engine is closed.
        stack.callback(campaign.clear, directory)
        engine = LocalProfiler(directory / campaign.WORK / "engine")
        profiler = stack.enter_context(engine)
        if not profiler.capabilities.profiles:
            raise Unavailable("programs can't be profiled in sandboxes here; see docs/sandbox.md")
        server = profiler.server
        cpus = campaign.cpus_of(server)
        settings = campaign.CampaignSettings(
            directory=directory,
            seconds=arguments.seconds,
            allocations=campaign.allocations(cpus, fractional=profiler.capabilities.fractional_cpu),
            command=_command(arguments),
            provisional=arguments.provisional,
            idle=idle,
        )
        progress = stack.enter_context(Progress())

        def tell(step: campaign.CampaignStep) -> None:
            left = fmt.duration(step.left_seconds)
            progress.tell(f"{step.number}/{step.count} {step.program}, {left} left")

        return campaign.run(programs, settings, server, profiler.measure, tell)


def _command(arguments: argparse.Namespace) -> str:
    """The command that measures the same again; without where it wrote to."""
    words = ["wharfinger", "classify", "measure"]
    words += ["--only", arguments.only] if arguments.only else []
    words += ["--seconds", f"{arguments.seconds:g}s"]
    words += [f"--{flag}" for flag in ("busy", "provisional") if getattr(arguments, flag)]
    return shlex.join(words)


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
    measured, kept = len(document["measured"]), len(document["kept"])
    head = f"{document['programs']} known programs in {document['directory']}"
    lines = [f"{head}: {measured} measured now, {kept} kept"]
    for outcome in ("skipped", "failed"):
        lines += [f"{outcome} {item['name']}: {item['reason']}" for item in document[outcome]]
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


_LIST = [
    column("PROGRAM", "name"),
    *map(column, ("GROUP", "KIND", "THREADS")),
    column("NEEDS", form=lambda names: fmt.text(" ".join(names))),
    column("MISSING", form=lambda names: fmt.text(" ".join(names))),
]
