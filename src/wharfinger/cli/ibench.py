"""``wharfinger ibench``: the sources of interference, on this machine; no manager is needed."""

import argparse
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wharfinger.cli import format as fmt
from wharfinger.cli.format import Column, column, fields, indented, show, table
from wharfinger.cli.main import NOT_AS_EXPECTED, OK
from wharfinger.cli.options import add_output, seconds
from wharfinger.cli.progress import status_line
from wharfinger.errors import InvalidInput

if TYPE_CHECKING:
    from wharfinger.ibench.driver import Report, RunningSource
    from wharfinger.ibench.sources import Source, SourceSetting
    from wharfinger.ibench.validation import Validation

DEFAULT_RUN_SECONDS = 10.0
DEFAULT_POINT_SECONDS = 1.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("action", choices=list(_ACTIONS), help="what to do")
    parser.add_argument(
        "sources", metavar="SOURCE", nargs="*", help="run: one; list, validate: default all"
    )
    parser.add_argument(
        "--intensity", type=_intensity, metavar="N", help="run: the pressure, 0 to 100"
    )
    parser.add_argument(
        "--seconds",
        type=seconds,
        metavar="DURATION",
        help="run: how long (default: 10s); validate: at each intensity (default: 1s)",
    )
    parser.add_argument(
        "--cpus",
        metavar="LIST",
        help="CPUs to work on, e.g. 0,2-3 (default: all that may be used; validate: the first)",
    )
    parser.add_argument(
        "--directory",
        metavar="DIR",
        help="on whose file system to do I/O (default: the current directory's)",
    )
    parser.add_argument(
        "--maximum",
        type=_rate,
        metavar="PER_SECOND",
        help="run: the rate that intensity 100 of storage-bandwidth stands for "
        "(default: measured first)",
    )
    add_output(parser)


def run(arguments: argparse.Namespace) -> int:
    """Do what was asked for."""
    if arguments.seconds == 0:
        raise InvalidInput("--seconds: 0; give a time above 0")
    _check(arguments)
    return _ACTIONS[arguments.action](arguments)


def _check(arguments: argparse.Namespace) -> None:
    """An option that would be passed over is a wrong call."""
    given = {"--intensity": arguments.intensity, "--maximum": arguments.maximum}
    for option, value in given.items():
        if value is not None and arguments.action != "run":
            raise InvalidInput(f"{option} is for ibench run, not for {arguments.action}")
    if arguments.action == "list" and arguments.seconds is not None:
        raise InvalidInput("--seconds is for ibench run and validate, not for list")


def _intensity(text: str) -> float:
    return _number(text, 100.0, "a number from 0 to 100")


def _rate(text: str) -> float:
    return _number(text, 1e18, "a rate per second, such as 2e8") or 1.0


def _number(text: str, most: float, mend: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= most:
        raise argparse.ArgumentTypeError(f"{text!r}; give {mend}")
    return number


def _settings(arguments: argparse.Namespace) -> "list[SourceSetting]":
    # Here and not above: help needs none of it.
    from wharfinger.ibench.sources import SOURCES, SourceSetting, source_named  # noqa: PLC0415

    chosen = [source_named(name) for name in arguments.sources] or SOURCES
    cpus = _cpus(arguments.cpus)
    # The list says itself where there is no directory.
    directory = Path(arguments.directory or ".").absolute()
    if arguments.action != "list" and arguments.directory is not None:
        _check_directory(arguments.directory, directory, chosen)
    if arguments.maximum is not None and not any(source.measures_maximum for source in chosen):
        name = chosen[0].name
        raise InvalidInput(f"--maximum: {name} has no maximum to measure; leave it out")
    return [SourceSetting(source, cpus, directory) for source in chosen]


def _check_directory(text: str, directory: Path, chosen: "Sequence[Source]") -> None:
    if not any(source.uses_directory for source in chosen):
        raise InvalidInput(f"--directory: {chosen[0].name} does no I/O; leave it out")
    try:
        is_directory = directory.is_dir()
    except (OSError, ValueError):  # A part that may not be searched, a NUL.
        is_directory = False
    if not is_directory:
        raise InvalidInput(f"--directory: {text!r} is no directory; name one that exists")


def _cpus(text: str | None) -> tuple[int, ...]:
    from wharfinger.host.topology import parse_cpus  # noqa: PLC0415 - only where they are given

    if text is None:
        return ()
    cpus = parse_cpus(text) if set(text) <= set("0123456789,-") else frozenset()
    if not cpus:
        raise InvalidInput(f"--cpus: {text!r}; give numbers and ranges, such as 0,2-3")
    return tuple(sorted(cpus))


# --- list -----------------------------------------------------------------------------------


def _list(arguments: argparse.Namespace) -> int:
    from wharfinger.ibench.sources import signal_here  # noqa: PLC0415

    rows = []
    for setting in _settings(arguments):
        signal = signal_here(setting)
        rows.append(_description(setting.source, signal.there, signal.reason))
    show(rows, arguments.output, lambda: table(rows, _LIST_COLUMNS))
    return OK


def _description(source: "Source", signal: bool, reason: str) -> dict[str, Any]:
    return {
        "name": source.name,
        "resource": source.resource.value,
        "about": source.about,
        "intensity_of": source.intensity,
        "unit": source.unit,
        "signal": signal,
        "reason": reason or None,
    }


_LIST_COLUMNS: list[Column] = [
    column("SOURCE", "name"),
    column("ABOUT"),
    column("INTENSITY", "intensity_of", "share {}".format),
    column("UNIT"),
    column("SIGNAL HERE", "signal", fmt.yes_no),
    column("WHY NOT", "reason"),
]


# --- run ------------------------------------------------------------------------------------


def _run(arguments: argparse.Namespace) -> int:
    from wharfinger.ibench.driver import start  # noqa: PLC0415

    if len(arguments.sources) != 1:
        raise InvalidInput(f"{len(arguments.sources)} sources are named; run takes one")
    if arguments.intensity is None:
        raise InvalidInput("--intensity: not given; say how much pressure, from 0 to 100")
    (setting,) = _settings(arguments)
    setting = replace(setting, maximum_per_second=arguments.maximum)
    with status_line() as progress:
        if setting.source.measures_maximum and arguments.maximum is None:
            progress(f"{setting.source.name}: measuring the maximum")
        with start(setting) as source:
            reports = _work(source, arguments, progress)
            done = _run_result(source, arguments.intensity, reports)
    show(done, arguments.output, lambda: _run_text(done))
    return OK


def _work(
    source: "RunningSource", arguments: argparse.Namespace, progress: Callable[[str], None]
) -> "list[Report]":
    """The reports of the time that was asked for; the last may be of part of a second."""
    since = source.set_intensity(arguments.intensity)
    begun = len(source.read())
    for report in source.reports_until(since + (arguments.seconds or DEFAULT_RUN_SECONDS)):
        progress(f"{source.setting.source.name}: achieved {report.achieved:.1f}")
    source.withdraw()
    return list(source.read())[begun:]


def _run_result(
    source: "RunningSource", intensity: float, reports: "list[Report]"
) -> dict[str, Any]:
    elapsed = sum(report.period_seconds for report in reports)

    def mean(of: "Callable[[Report], float]") -> float | None:
        return sum(of(r) * r.period_seconds for r in reports) / elapsed if elapsed else None

    return {
        "name": source.setting.source.name,
        "intensity": intensity,
        "achieved": mean(lambda report: report.achieved),
        "rate_per_second": mean(lambda report: report.rate_per_second),
        "unit": source.setting.source.unit,
        "maximum_per_second": source.setting.maximum_per_second,
        "seconds": elapsed,
        "cpu_seconds": reports[-1].cpu_seconds if reports else None,
        "reports": [
            {
                "time_seconds": report.time_seconds,
                "achieved": report.achieved,
                "rate_per_second": report.rate_per_second,
            }
            for report in reports
        ],
    }


def _run_text(done: dict[str, Any]) -> str:
    pairs = [
        ("source", done["name"]),
        ("intensity", fmt.number(done["intensity"])),
        ("achieved", fmt.number(done["achieved"])),
        ("rate", _rate_text(done["rate_per_second"], done["unit"])),
        ("for", fmt.duration(done["seconds"])),
    ]
    return fields(pairs)


def _rate_text(rate_per_second: float | None, unit: str) -> str:
    if rate_per_second is None:
        return fmt.NONE
    if unit == "bytes/s":
        return f"{fmt.size(rate_per_second)}B/s"
    return f"{rate_per_second:.3g} {unit}"


# --- validate -------------------------------------------------------------------------------


def _validate(arguments: argparse.Namespace) -> int:
    from wharfinger.ibench.validation import validate  # noqa: PLC0415

    first = (min(os.sched_getaffinity(0)),)
    point_seconds = arguments.seconds or DEFAULT_POINT_SECONDS
    with status_line() as progress:
        found = [
            # One CPU, so that source and neighbor are certain to meet on it.
            validate(replace(setting, cpus=setting.cpus[:1] or first), point_seconds, progress)
            for setting in _settings(arguments)
        ]
    rows = [_validation_row(validation) for validation in found]
    show(rows, arguments.output, lambda: "\n\n".join(map(_validation_text, rows)))
    return OK if all(validation.holds for validation in found) else NOT_AS_EXPECTED


def _validation_row(found: "Validation") -> dict[str, Any]:
    effect = found.effect
    return {
        "name": found.source.name,
        "signal": not found.reason,
        "reason": found.reason or None,
        "holds": found.holds if not found.reason else None,
        "problems": list(found.problems),
        "unit": found.source.unit,
        "maximum_per_second": found.maximum_per_second,
        "slope": found.slope,
        "points": [
            {
                "intensity": point.intensity,
                "achieved": point.achieved,
                "left": point.left,
                "rate_per_second": point.rate_per_second,
                "cpu_share": point.cpu_share,
            }
            for point in found.points
        ],
        "neighbour": effect
        and {
            "alone_per_second": effect.alone_per_second,
            "beside_per_second": effect.beside_per_second,
            "kept_share": effect.kept_share,
            "withdrawal_seconds": effect.withdrawal_seconds,
        },
    }


_POINT_COLUMNS: list[Column] = [
    ("INTENSITY", lambda point: fmt.number(point["intensity"])),
    ("ACHIEVED", lambda point: f"{point['achieved']:.1f}"),
    ("LEFT", lambda point: fmt.NONE if point["left"] is None else f"{point['left']:.1f}"),
    ("RATE", lambda point: _rate_text(point["rate_per_second"], point["unit"])),
    ("OF A CPU", lambda point: f"{point['cpu_share']:.1%}"),
]


def _validation_text(row: dict[str, Any]) -> str:
    if not row["signal"]:
        return f"{row['name']}: no signal here: {row['reason']}"
    beside = row["neighbour"]
    points = [{**point, "unit": row["unit"]} for point in row["points"]]
    verdict = "does what it says" if row["holds"] else "does not do what it says"
    lines = [
        f"{row['name']}: {verdict}",
        *(indented(f"! {problem}") for problem in row["problems"]),
        indented(table(points, _POINT_COLUMNS)),
        indented(
            f"slope {row['slope']:.3f}; beside intensity 100 a neighbor keeps "
            f"{beside['kept_share']:.0%} of its performance; withdrawn within "
            f"{fmt.latency(max(beside['withdrawal_seconds'], 1e-6))}"
        ),
    ]
    return "\n".join(lines)


_ACTIONS: dict[str, Callable[[argparse.Namespace], int]] = {
    "list": _list,
    "run": _run,
    "validate": _validate,
}
