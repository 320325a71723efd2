"""``wharfinger ibench``: the sources of interference, on this machine; no manager is needed."""

import argparse
import os
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from wharfinger.cli import format as fmt
from wharfinger.cli.main import OK
from wharfinger.cli.options import add_option, add_output, refuse
from wharfinger.cli.output import Column, Record, column, fields, show, table
from wharfinger.cli.progress import Progress
from wharfinger.cli.readers import cpu_numbers, number, seconds_above_zero
from wharfinger.errors import InvalidInput

# Not imported at run time: help needs none of it.
if TYPE_CHECKING:
    from wharfinger.ibench.driver import Report, RunningSource
    from wharfinger.ibench.sources import Source, SourceSetting

DEFAULT_RUN_SECONDS = 10.0
MAX_PORT = 65_535

_OF_SOURCES = ("--footprint", "--stride", "--quota", "--peer")
_OF_VALIDATE = ("--quick", "--report")
_SHAPES = ("--intensity", "--ramp", "--sweep")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("action", choices=["list", "run", "validate", "peer"], help="what to do")
    words = "run: one; list, validate: default all"
    parser.add_argument("sources", metavar="SOURCE", nargs="*", help=words)
    add = partial(add_option, parser)
    pressure = number(0, 100, "a number from 0 to 100")
    add("--intensity N", "run: the pressure, 0 to 100", read=pressure)
    add("--ramp FROM:TO:STEP:SECONDS", "run: the pressure, step by step, e.g. 0:100:10:2")
    words = "run: from 0 to 100 in one go, e.g. 10ms; what it did is told as a whole"
    add("--sweep DURATION", words, read=seconds_above_zero)
    add("--seconds DURATION", "run: how long (default: 10s)", read=seconds_above_zero)
    words = "CPUs to work on, e.g. 0,2-3 (default: all that may be used; validate: the first)"
    add("--cpus LIST", words, read=cpu_numbers)
    words = "run: on the other hardware threads of --cpus; for the units of a core"
    add("--sibling", words)
    add("--directory DIR", "on whose file system to do I/O (default: the current directory's)")
    size = number(1, 1e15, "a size, such as 64Mi", _bytes)
    words = "of memory or a cache, at 100 (default: what the source finds)"
    add("--footprint SIZE", words, read=size)
    words = "memory-capacity: from one access to the next (default: random)"
    add("--stride SIZE", words, read=size)
    add("--quota SIZE", "storage-capacity: at 100 (default: a tenth of what is free)", read=size)
    words = "network-bandwidth: a 'wharfinger ibench peer' (default: its own, on loopback)"
    add("--peer HOST:PORT", words)
    add("--listen [HOST]:PORT", "peer: where (default: any address, a free port, which it tells)")
    words = "run: rate at intensity 100, of a bandwidth (default: measured first)"
    rate = number(0, 1e18, "a rate per second, such as 2e8", lambda text: float(text) or 1.0)
    add("--maximum PER_SECOND", words, read=rate)
    add("--quick", "validate: in a minute instead of five, less exactly")
    words = "validate: draw Figures 5.2 and 5.4 of this machine there; needs matplotlib"
    add("--report DIR", words)
    add_output(parser)


def run(arguments: argparse.Namespace) -> int:
    """List, run or validate; or be the peer of a source."""
    if arguments.action == "peer":
        return _be_peer(arguments)
    refuse(arguments, ["--listen"], "is for ibench peer")
    if arguments.action != "run":
        refuse(arguments, [*_SHAPES, "--maximum", "--seconds", "--sibling"], "is for ibench run")
    if arguments.action != "validate":
        refuse(arguments, _OF_VALIDATE, "is for ibench validate")
    if arguments.action == "list":
        return _list(arguments)
    if arguments.action == "run":
        return _run(arguments)
    from wharfinger.cli import ibench_validate  # noqa: PLC0415

    return ibench_validate.run(arguments, _settings(arguments))


def _bytes(text: str) -> float:
    from wharfinger.model.units import parse_bytes  # noqa: PLC0415

    try:
        return parse_bytes(text)
    except InvalidInput as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _be_peer(arguments: argparse.Namespace) -> int:
    """Become the program that answers; it ends with its input."""
    from wharfinger.host.binaries import ibench_path  # noqa: PLC0415

    unread = [*_SHAPES, *_OF_SOURCES, *_OF_VALIDATE]
    unread += ["--maximum", "--cpus", "--sibling", "--directory"]
    refuse(arguments, unread, "is for the sources, not for ibench peer")
    if arguments.sources:
        raise InvalidInput(f"SOURCE: {arguments.sources[0]!r}; ibench peer takes none")
    argv = [str(ibench_path()), "peer"]
    if arguments.listen is not None:
        _, colon, port = arguments.listen.rpartition(":")
        if not (colon and port.isascii() and port.isdigit() and int(port) <= MAX_PORT):
            mend = f"give [HOST]:PORT, PORT from 0 to {MAX_PORT}, such as :7000"
            raise InvalidInput(f"--listen: {arguments.listen!r}; {mend}")
        argv += ["--listen", arguments.listen]
    if arguments.seconds is not None:
        argv += ["--seconds", repr(arguments.seconds)]
    os.execv(argv[0], argv)


def _settings(arguments: argparse.Namespace) -> "list[SourceSetting]":
    from wharfinger.ibench.sources import SOURCES, SourceSetting, source_named  # noqa: PLC0415

    chosen = [source_named(name) for name in arguments.sources] or SOURCES
    cpus = _siblings(arguments, chosen) if arguments.sibling else arguments.cpus or ()
    # The list says itself where there is no directory.
    directory = Path(arguments.directory or ".").absolute()
    if arguments.action != "list" and arguments.directory is not None:
        _check_directory(arguments.directory, directory, chosen)
    if arguments.maximum is not None and not any(source.measures_maximum for source in chosen):
        name = chosen[0].name
        raise InvalidInput(f"--maximum: {name} has no maximum to measure; leave it out")
    given = {name: getattr(arguments, name) for name in _names_given(arguments, chosen)}
    return [SourceSetting(source, cpus, directory, **given) for source in chosen]


def _siblings(arguments: argparse.Namespace, chosen: "Sequence[Source]") -> tuple[int, ...]:
    from wharfinger.host.topology import siblings_of  # noqa: PLC0415
    from wharfinger.ibench.sources import SIBLING_SOURCES  # noqa: PLC0415

    if chosen[0].resource not in SIBLING_SOURCES:
        names = ", ".join(sorted(SIBLING_SOURCES))
        raise InvalidInput(f"--sibling: {chosen[0].name} has no use for it; it is for {names}")
    if arguments.cpus is None:
        raise InvalidInput("--sibling: of which CPUs? name them with --cpus")
    return siblings_of(arguments.cpus, os.sched_getaffinity(0))


def _names_given(arguments: argparse.Namespace, chosen: "Sequence[Source]") -> list[str]:
    read = {name for source in chosen for name in source.options}
    names = [option.removeprefix("--") for option in _OF_SOURCES]
    given = [name for name in names if getattr(arguments, name) is not None]
    for name in given:
        if name not in read:
            raise InvalidInput(f"--{name}: {chosen[0].name} does not read it; leave it out")
    return given


def _check_directory(text: str, directory: Path, chosen: "Sequence[Source]") -> None:
    if not any(source.uses_directory for source in chosen):
        raise InvalidInput(f"--directory: {chosen[0].name} does no I/O; leave it out")
    try:
        is_directory = directory.is_dir()
    except (OSError, ValueError):  # A part that may not be searched, a NUL.
        is_directory = False
    if not is_directory:
        raise InvalidInput(f"--directory: {text!r} is no directory; name one that exists")


def _list(arguments: argparse.Namespace) -> int:
    from wharfinger.ibench.sources import signal_here  # noqa: PLC0415

    signals = ((setting.source, signal_here(setting)) for setting in _settings(arguments))
    rows = [
        {
            "name": source.name,
            "resource": source.resource.value,
            "about": source.about,
            "intensity_of": source.intensity,
            "unit": source.unit,
            "signal": signal.there,
            "reason": signal.reason or None,
        }
        for source, signal in signals
    ]
    show(rows, arguments.output, lambda: table(rows, _LIST_COLUMNS))
    return OK


_LIST_COLUMNS = [
    column("SOURCE", "name"),
    column("ABOUT"),
    column("INTENSITY", "intensity_of", "share {}".format),
    column("UNIT"),
    column("SIGNAL HERE", "signal", fmt.yes_no),
    column("WHY NOT", "reason"),
]


def _run(arguments: argparse.Namespace) -> int:
    from wharfinger.ibench.driver import start  # noqa: PLC0415
    from wharfinger.ibench.sources import source_named  # noqa: PLC0415

    if len(arguments.sources) != 1:
        raise InvalidInput(f"{len(arguments.sources)} sources are named; run takes one")
    source_named(arguments.sources[0])
    shapes = [option for option in _SHAPES if getattr(arguments, option[2:]) is not None]
    if not shapes:
        raise InvalidInput("--intensity: not given; say how much pressure, from 0 to 100")
    if len(shapes) > 1:
        raise InvalidInput(f"{' and '.join(shapes)}: give one of them")
    if arguments.intensity is None:
        refuse(arguments, ["--seconds"], f"says nothing beside {shapes[0]}, which has its own time")
    (setting,) = _settings(arguments)
    setting = replace(setting, maximum_per_second=arguments.maximum)
    with Progress() as progress:
        if setting.source.measures_maximum and arguments.maximum is None:
            progress.tell(f"{setting.source.name}: measuring the maximum")
        with start(setting, *_climb(arguments)) as source:
            reports = _work(source, arguments, progress)
            result = _run_result(source, arguments.intensity, reports)
    show(result, arguments.output, lambda: _run_text(result))
    return OK


def _climb(arguments: argparse.Namespace) -> tuple[str, ...]:
    """The options of the program, which checks them, where the intensity is not a fixed one."""
    if arguments.ramp is not None:
        return ("--ramp", arguments.ramp)
    return ("--sweep", repr(arguments.sweep)) if arguments.sweep is not None else ()


def _work(
    source: "RunningSource", arguments: argparse.Namespace, progress: Progress
) -> "list[Report]":
    """The reports of the time that was asked for; the last may be of part of a second."""
    if arguments.intensity is None:
        reports = []
        for report in source.reports_to_end():
            reports.append(report)
            progress.tell(f"intensity {report.intensity:g}: achieved {report.achieved:.1f}")
        return reports
    since = source.set_intensity(arguments.intensity)
    begun = len(source.read())
    for report in source.reports_until(since + (arguments.seconds or DEFAULT_RUN_SECONDS)):
        progress.tell(f"{source.setting.source.name}: achieved {report.achieved:.1f}")
    source.withdraw()
    return list(source.read())[begun:]


def _means(reports: "Sequence[Report]") -> Record:
    elapsed = sum(report.period_seconds for report in reports)

    def mean(name: str) -> float | None:
        total = sum(getattr(report, name) * report.period_seconds for report in reports)
        return total / elapsed if elapsed else None

    return {
        "achieved": mean("achieved"),
        "rate_per_second": mean("rate_per_second"),
        "footprint_bytes": reports[-1].footprint_bytes if reports else None,
        "seconds": elapsed,
    }


def _run_result(
    source: "RunningSource", intensity: float | None, reports: "list[Report]"
) -> Record:
    steps = [(step, list(of_step)) for step, of_step in groupby(reports, lambda r: r.intensity)]
    keys = ("time_seconds", "achieved", "rate_per_second")
    return {
        "name": source.setting.source.name,
        "intensity": intensity,
        **_means(reports),
        "unit": source.setting.source.unit,
        "maximum_per_second": source.setting.maximum_per_second,
        "cpu_seconds": reports[-1].cpu_seconds if reports else None,
        "steps": [{"intensity": step, **_means(of_step)} for step, of_step in steps],
        "reports": [{key: getattr(report, key) for key in keys} for report in reports],
    }


def _run_text(result: Record) -> str:
    if len(result["steps"]) > 1:
        return table([{**step, "unit": result["unit"]} for step in result["steps"]], _STEP_COLUMNS)
    pairs = [
        ("source", result["name"]),
        ("intensity", fmt.number(result["intensity"])),
        ("achieved", fmt.number(result["achieved"])),
        ("rate", _rate_text(result["rate_per_second"], result["unit"])),
        ("footprint", _footprint_text(result["footprint_bytes"])),
        ("for", _time_text(result["seconds"])),
    ]
    return fields(pairs)


def _time_text(seconds: float) -> str:
    return fmt.duration(seconds) if seconds >= 1 else fmt.latency(seconds or 1e-6)


def _footprint_text(footprint_bytes: int | None) -> str:
    return f"{fmt.size(footprint_bytes)}B" if footprint_bytes else fmt.NONE


def _rate_text(rate_per_second: float | None, unit: str) -> str:
    if rate_per_second is None:
        return fmt.NONE
    if unit == "bytes/s":
        return f"{fmt.size(rate_per_second)}B/s"
    return f"{rate_per_second:.3g} {unit}"


_STEP_COLUMNS: list[Column] = [
    column("INTENSITY", form=fmt.number),
    column("ACHIEVED", form="{:.1f}".format),
    ("RATE", lambda step: _rate_text(step["rate_per_second"], step["unit"])),
    ("FOOTPRINT", lambda step: _footprint_text(step["footprint_bytes"])),
    column("FOR", "seconds", _time_text),
]
