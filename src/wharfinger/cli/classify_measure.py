"""``wharfinger classify measure``: the known programs, on this machine or on a Slurm cluster.

It needs no manager.
"""

import argparse
import contextlib
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from wharfinger.catalog import campaign
from wharfinger.catalog.known_files import site_directory
from wharfinger.catalog.listing import Program, chosen
from wharfinger.catalog.quiet import Disturbance, watch
from wharfinger.cli import format as fmt
from wharfinger.cli.main import FAILED, OK
from wharfinger.cli.output import Record, column, show, table
from wharfinger.cli.progress import Progress
from wharfinger.cli.up import slurm_settings
from wharfinger.engines.local.profiler import LocalProfiler
from wharfinger.engines.notes import MemoryNotes
from wharfinger.engines.slurm import SlurmEngine, SlurmSettings
from wharfinger.engines.slurm.client.base import SlurmJob
from wharfinger.engines.slurm.client.client import CommandClient
from wharfinger.engines.slurm.comments import addressed
from wharfinger.engines.slurm.settings import check_ours, check_shared_dir
from wharfinger.engines.slurm.start_notes import IDENTITY
from wharfinger.engines.supervised.copying import LIMIT_SECONDS
from wharfinger.engines.supervised.machine import identity_of_directory
from wharfinger.engines.supervised.profiler import EngineProfiler
from wharfinger.errors import Conflict, InvalidInput, Unavailable
from wharfinger.model.configuration import Configuration, Setting
from wharfinger.model.platform import Server
from wharfinger.model.profile import FurtherRun

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
    if arguments.engine not in {"local", "slurm"}:
        raise InvalidInput(f"--engine: {arguments.engine!r} is not local or slurm")
    settings = slurm_settings(arguments)
    # Of a cluster it is its nodes that have to be quiet.
    idle = _quiet(anyway=arguments.busy) if settings is None else Disturbance(0.0, 0.0)
    directory = Path(arguments.out).absolute() if arguments.out else site_directory()
    place = _local(directory) if settings is None else _slurm(directory, settings)
    if arguments.anew:  # Nothing is forgotten for what is refused.
        campaign.forget(directory)
    outcome = _measure(arguments, programs, place, directory, idle)
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


@dataclass(frozen=True, slots=True)
class _Place:
    """Where programs are measured; ``work`` has their inputs, and is removed."""

    profiler: EngineProfiler
    work: Path


def _local(directory: Path) -> _Place:
    work = directory / campaign.WORK
    return _Place(LocalProfiler(work / "engine"), work)


class _ClientWithoutOffers(CommandClient):
    """Lists no job that its user offers to a manager, so none is read or written into."""

    def jobs(self) -> Sequence[SlurmJob]:
        """The others."""
        return [job for job in super().jobs() if not addressed(job.comment)]


def _slurm(directory: Path, settings: SlurmSettings) -> _Place:
    if settings.shared_dir is None:
        raise InvalidInput(
            "--engine slurm: --shared-dir is missing; name a directory that every node sees under "
            "the same path"
        )
    # The same for the same results, so that what a killed run has left is cleared away.
    identity = identity_of_directory(directory)
    work = check_shared_dir(settings.shared_dir) / f"measure-{identity}"
    with contextlib.suppress(FileExistsError):
        work.mkdir(mode=0o700)
    check_ours(work)
    settings = replace(settings, shared_dir=work)
    engine = SlurmEngine(_ClientWithoutOffers(), MemoryNotes({IDENTITY: identity}), settings)
    patience_seconds = LIMIT_SECONDS + settings.pending_seconds
    return _Place(EngineProfiler(engine, patience_seconds), work)


def _idle_by_platform(profiler: EngineProfiler, *, anyway: bool) -> list[Server]:
    """A server of each platform, the largest first, of which others hold nothing."""
    found: dict[str, Server] = {}
    servers = [server for server in profiler.servers if server.accepting]
    for server in sorted(servers, key=lambda s: (s.others_cpu_millicpus, -s.cpu_millicpus)):
        found.setdefault(server.platform.name, server)
    if not found:
        raise Unavailable("no node accepts work; see wharfinger get servers, or sinfo")
    busy = [server for server in found.values() if server.others_cpu_millicpus]
    if busy and not anyway:
        names = ", ".join(f"{server.platform.name} ({server.name})" for server in busy)
        raise Conflict(
            f"others use every node of platform {names}; wait, or measure all the same with --busy"
        )
    return sorted(found.values(), key=lambda server: -server.cpu_millicpus)


def _elsewhere(servers: Sequence[Server], allocations: Sequence[int]) -> tuple[FurtherRun, ...]:
    """Runs with each allocation that a server holds."""
    return tuple(
        FurtherRun(Setting(server.platform.name, Configuration(cpu)), (server.name,))
        for server in servers
        for cpu in allocations
        if cpu <= server.cpu_millicpus
    )


def _measure(
    arguments: argparse.Namespace,
    programs: tuple[Program, ...],
    place: _Place,
    directory: Path,
    idle: Disturbance,
) -> campaign.CampaignOutcome:
    with contextlib.ExitStack() as stack:
        # Inputs and the engine's directory are removed after the engine is closed.
        stack.callback(campaign.clear, place.work)
        profiler = stack.enter_context(place.profiler)
        if not profiler.capabilities.profiles:
            raise Unavailable("programs can't be profiled in sandboxes here; see docs/sandbox.md")
        server, *others = _idle_by_platform(profiler, anyway=arguments.busy)
        cpus = campaign.cpus_of(server)
        fractional = profiler.capabilities.fractional_cpu
        allocations = campaign.allocations(cpus, fractional=fractional)
        settings = campaign.CampaignSettings(
            directory=directory,
            work=place.work,
            seconds=arguments.seconds,
            allocations=allocations,
            further=_elsewhere(others, allocations),
            command=_command(arguments),
            provisional=arguments.provisional,
            idle=idle,
            sources=profiler.capabilities.sources,
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
    if arguments.engine == "slurm":
        words += ["--engine", "slurm"]
        words += [f"--platform-feature={name}" for name in arguments.platform_feature or ()]
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
