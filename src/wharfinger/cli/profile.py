"""``wharfinger profile``: what interference a program tolerates and causes; needs no manager."""

import argparse
import json
import os
import shlex
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wharfinger.cli import format as fmt
from wharfinger.cli.main import OK, CommandParser
from wharfinger.cli.options import add_option, add_state, allowed_cpus, refuse, state_path
from wharfinger.cli.output import Record, column, show, table
from wharfinger.cli.progress import Progress, ended_in_order
from wharfinger.cli.readers import cpu_numbers, number, seconds_above_zero, share, whole
from wharfinger.errors import InvalidInput, Unavailable

# Not imported at run time: help needs none of it.
if TYPE_CHECKING:
    from wharfinger.ibench.sources import Source, SourceSetting
    from wharfinger.model.workload import Workload
    from wharfinger.profiler.attaching import AttachedWorkload
    from wharfinger.profiler.program import RunningProcess
    from wharfinger.profiler.session import Settings

OUTPUTS = ("table", "json", "csv")
CAUSED = ("probe", "published")
_MEASURES = (
    ("--measure-regex", "progress.regex"),
    ("--measure-file", "progress.file"),
    ("--measure-http", "http.url"),
    ("--measure-metric", "http.metric"),
    ("--measure-percentile", "http.percentile"),
    ("--measure-command", "command"),
    ("--measure-load", "load.command"),
)
_COMMANDS = ("--measure-command", "--measure-load")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    assert isinstance(parser, CommandParser)
    parser.passes_on, parser.may_pass_nothing = "words", True
    words = "the program and its arguments, after --; no shell"
    parser.add_argument("words", metavar="COMMAND", nargs="*", help=words)
    add = partial(add_option, parser)
    words = "sources and sets (paragon, ibench, all), with commas between"
    add("--sources NAMES", words, "all")
    add("--tolerance SHARE", "how far performance may drop", "5%", share)
    add("--time-limit DURATION", "measure no longer", "2m", seconds_above_zero)
    words = "CPUs of the program and of the sources (default: all that may be used)"
    add("--cpus LIST", words, read=cpu_numbers)
    words = "measure integer, floating-point and vector from the sibling threads, too"
    add("--sibling", words)
    words = "on whose file system to do I/O (default: the current directory's)"
    add("--directory DIR", words)
    words = "a process that runs already, instead of COMMAND; sources press on its CPUs"
    add("--pid N", words, read=whole(1, 2**22))
    words = "a workload that the manager on this machine runs, measured as its manifest says"
    add("--attach NAME", words)
    add_state(parser)
    add("--name NAME", "in the profile (default: the program's)")
    words = "the kind of these CPUs, for pair (default: from the CPU's model)"
    add("--platform NAME", words)
    add("--measure FILE", "how it is measured: a file with a manifest's measure section")
    words = "performance in its lines; the first group is a number, or groups have names"
    add("--measure-regex REGEX", words)
    add("--measure-file FILE", "where these lines are, if not on its output")
    add("--measure-http URL", "an endpoint that tells it")
    add("--measure-metric METRIC", "of a Prometheus endpoint")
    percentile = number(0, 100, "a percentile, such as 99")
    add("--measure-percentile N", "of a histogram", read=percentile)
    add("--measure-command COMMAND", "a command that prints it, in quotes")
    words = "a load generator, in quotes, whose lines --measure-regex reads"
    add("--measure-load COMMAND", words)
    words = "counter (work done so far), gauge, or histogram (of --measure-metric)"
    add("--measure-kind KIND", words)
    words = "how caused interference is told: by a probe, or as published (100 - tolerated)"
    parser.add_argument("--caused", choices=CAUSED, default=CAUSED[0], help=words)
    words = "an earlier profile on these CPUs, whose calibration of the probes is used again"
    add("--calibration PROFILE.json", words)
    words = "estimate what was not measured from the known programs"
    add("--complete", words)
    add("--compare BEFORE.json", "also say what changed since that profile")
    add("--png FILE", "draw bars and curves; needs matplotlib")
    words = "output format (default: table)"
    parser.add_argument("-o", "--output", choices=OUTPUTS, default=OUTPUTS[0], help=words)


def run(arguments: argparse.Namespace) -> int:
    """Measure, and print the profile."""
    from wharfinger.profiler.choosing import choose  # noqa: PLC0415
    from wharfinger.profiler.report import csv_of  # noqa: PLC0415
    from wharfinger.profiling.rounds import check_seconds  # noqa: PLC0415

    ways = (bool(arguments.words), arguments.pid is not None, arguments.attach is not None)
    if sum(ways) != 1:
        what = "several are given" if any(ways) else "neither is given"
        mend = "name a program after --, a process or a workload"
        raise InvalidInput(f"COMMAND, --pid or --attach: {what}; {mend}")
    sources = choose(arguments.sources)
    if not arguments.tolerance < 1:
        raise InvalidInput(f"--tolerance: {arguments.tolerance:g}; give a share below 1, as 5%")
    check_seconds(arguments.time_limit, len(sources))
    attached = _attached(arguments)
    workload = _workload(arguments, attached)
    with ended_in_order():
        document = _measured(arguments, sources, workload, attached)
    if arguments.png:
        _draw(document, arguments.png)
    if arguments.output == "csv":
        print(csv_of(document), end="")
    else:
        show(document, arguments.output, lambda: _text(document))
    return OK


def _attached(arguments: argparse.Namespace) -> "AttachedWorkload | None":
    """The workload that is meant; as with ``--pid`` from here on."""
    if arguments.attach is None:
        return None
    from wharfinger.cli.client import Client  # noqa: PLC0415
    from wharfinger.profiler.attaching import attached  # noqa: PLC0415
    from wharfinger.runtime.state_directory import StateDirectory  # noqa: PLC0415

    options = [option for option, _ in _MEASURES]
    refuse(arguments, [*options, "--measure-kind", "--measure"], "is what its manifest says")
    state = state_path(arguments)
    found = attached(Client(state).get("workloads", arguments.attach), StateDirectory(state).runs)
    arguments.pid = found.pid
    arguments.name = arguments.name or found.name
    return found


def _workload(arguments: argparse.Namespace, attached: "AttachedWorkload | None") -> "Workload":
    from wharfinger.profiler.measuring import read_measure, workload_of  # noqa: PLC0415
    from wharfinger.profiler.program import check_command  # noqa: PLC0415

    if attached is not None:
        source = f"the manifest of {attached.name}"
        return workload_of(["process"], attached.measure, attached.beside, source)
    if arguments.pid is None:
        check_command(arguments.words)
    given = {option: _value(arguments, option) for option, _ in _MEASURES}
    given = {option: value for option, value in given.items() if value is not None}
    measure: Record = {}
    beside: Record = {}
    source = "the command line"
    if arguments.measure is not None:
        options = [option for option, _ in _MEASURES] + ["--measure-kind"]
        refuse(arguments, options, "says what --measure says in its file")
        source = arguments.measure
        measure, beside = read_measure(Path(arguments.measure))
    for option, field in _MEASURES:
        if option in given:
            value: Any = given[option]
            _set(measure, field, shlex.split(value) if option in _COMMANDS else value)
    if arguments.measure_kind is not None:
        _set_kind(measure, arguments.measure_kind)
    reads_output = "progress" in measure and "file" not in measure["progress"]
    if arguments.pid is not None and reads_output and "load" not in measure:
        mend = "add --measure-file, or measure it in another way"
        raise InvalidInput(f"--pid: {arguments.pid}: its output can't be read; {mend}")
    return workload_of(arguments.words or ["process"], measure, beside, source)


def _value(arguments: argparse.Namespace, option: str) -> Any:
    return getattr(arguments, option.removeprefix("--").replace("-", "_"))


def _set(measure: Record, field: str, value: Any) -> None:
    section, _, key = field.partition(".")
    if key:
        measure.setdefault(section, {})[key] = value
    else:
        measure[section] = value


def _set_kind(measure: Record, kind: str) -> None:
    if "http" in measure:
        measure["http"]["kind"] = kind
    elif "command" in measure:
        measure["commandKind"] = kind
    elif "progress" in measure:
        measure["progress"]["kind"] = kind
    else:
        raise InvalidInput(f"--measure-kind: {kind!r}: of nothing; say what is read, too")


def _measured(
    arguments: argparse.Namespace,
    sources: "tuple[Source, ...]",
    workload: "Workload",
    attached: "AttachedWorkload | None",
) -> Record:
    from wharfinger.ibench.sources import SourceSetting  # noqa: PLC0415
    from wharfinger.profiler.program import RunningProcess  # noqa: PLC0415
    from wharfinger.profiler.report import document_of  # noqa: PLC0415
    from wharfinger.profiler.session import (  # noqa: PLC0415
        REPORT_SECONDS,
        CommandSession,
        settings_here,
    )
    from wharfinger.profiling import rounds  # noqa: PLC0415

    process: RunningProcess | None = None
    if arguments.pid is not None:
        refuse(arguments, ["--cpus"], "is for COMMAND")
        process = RunningProcess(int(arguments.pid))
        cpus = process.cpus
    else:
        cpus = allowed_cpus("--cpus", arguments.cpus) or tuple(sorted(os.sched_getaffinity(0)))
    directory = Path(arguments.directory or ".").absolute()
    if not directory.is_dir():
        raise InvalidInput(f"--directory: {arguments.directory!r} is no directory; name one")
    before, calibrations = _before(arguments, cpus), _calibrations(arguments, cpus)
    base = SourceSetting(sources[0], cpus, directory, report_seconds=REPORT_SECONDS)
    beside = _sibling_settings(arguments, sources, base)
    began = time.monotonic()
    with Progress() as progress:
        settings, silent = settings_here(sources, base, progress.tell)
        if not settings:
            told = "; ".join(f"{what.partition('/')[2]}: {why}" for what, why in silent.items())
            raise Unavailable(f"no source has a signal here: {told}")
        # What maxima take is part of the time, but for what is needed to measure anything.
        left = arguments.time_limit - (time.monotonic() - began)

        def profiled(used: "Settings", known: "rounds.Calibrations | None") -> Any:
            seconds = left * len(used) / (len(settings) + len(beside))
            again = process if used is settings else _process_again(process)
            session = CommandSession(
                arguments.words,
                workload,
                used,
                cpus=cpus,
                process=again,
                run_dirs=(str(attached.run_dir), str(attached.load_runs)) if attached else ("", ""),
            )
            session.tell = progress.tell
            try:
                return rounds.Profiler(
                    session,
                    [source for source in sources if source.resource in used],
                    tolerance=arguments.tolerance,
                    seconds=max(seconds, rounds.least_seconds(len(used))),
                    cpus=len(cpus),
                    tell=progress.tell,
                    calibrations=known,
                    calibrates=process is None,
                    caused_as_published=arguments.caused == "published",
                ).profile()
            finally:
                session.close()

        profile = profiled(settings, calibrations)
        from_siblings = profiled(beside, None) if beside else None
    profile.sources = sources
    profile.silent |= silent
    document = document_of(profile, _about(arguments, cpus, process), from_siblings)
    if arguments.complete:
        from wharfinger.profiler.completing import complete  # noqa: PLC0415

        complete(document)
    if before is not None:
        document["compared"] = _changes(before, document)
    return document


def _process_again(process: "RunningProcess | None") -> "RunningProcess | None":
    from wharfinger.profiler.program import RunningProcess  # noqa: PLC0415

    return None if process is None else RunningProcess(process.number)


def _sibling_settings(
    arguments: argparse.Namespace, sources: "tuple[Source, ...]", base: "SourceSetting"
) -> "Settings":
    """Of the sources that press on a core's units, on the other threads of the program's cores."""
    from wharfinger.host.topology import siblings_of  # noqa: PLC0415
    from wharfinger.ibench.sources import SIBLING_SOURCES  # noqa: PLC0415

    if not arguments.sibling:
        return {}
    chosen = [source for source in sources if source.resource in SIBLING_SOURCES]
    if not chosen:
        names = ", ".join(sorted(SIBLING_SOURCES))
        raise InvalidInput(f"--sibling: none of --sources has a use for it; it is for {names}")
    cpus = siblings_of(base.cpus, os.sched_getaffinity(0))
    return {source.resource: replace(base, source=source, cpus=cpus) for source in chosen}


def _calibrations(arguments: argparse.Namespace, cpus: tuple[int, ...]) -> Any:
    if arguments.calibration is None:
        return None
    from wharfinger.host.topology import cpu_model  # noqa: PLC0415
    from wharfinger.profiler.report import calibrations_of  # noqa: PLC0415

    place = f"--calibration: {arguments.calibration}"
    profile = read_json(arguments.calibration, place)
    try:
        was, calibrations = (profile["cpu_model"], profile["cpus"]), calibrations_of(profile)
    except (KeyError, TypeError, ValueError):
        mend = "give what `wharfinger profile -o json` wrote"
        raise InvalidInput(f"{place}: it is no profile with a calibration; {mend}") from None
    if was != (cpu_model(), list(cpus)):
        mend = "give a profile that was made on the same CPUs"
        raise InvalidInput(f"{place}: made on CPUs {was[1]} of {was[0] or 'a model'}; {mend}")
    return calibrations


def _about(
    arguments: argparse.Namespace, cpus: tuple[int, ...], process: "RunningProcess | None"
) -> Record:
    from wharfinger.host.topology import cpu_model, slug  # noqa: PLC0415

    model = cpu_model()
    name = arguments.name
    if name is None and process is not None:
        name = Path(f"/proc/{arguments.pid}/comm").read_text().strip()
    return {
        "name": name or Path(arguments.words[0]).name,
        "command": arguments.words or None,
        "pid": None if process is None else int(arguments.pid),
        "cpus": list(cpus),
        "cpu_model": model,
        "platform": arguments.platform or slug(model) or os.uname().machine,
    }


def _before(arguments: argparse.Namespace, cpus: tuple[int, ...]) -> Any:
    if arguments.compare is None:
        return None
    from wharfinger.profiler.comparison import check_comparable  # noqa: PLC0415

    place = f"--compare: {arguments.compare}"
    before = read_json(arguments.compare, place)
    check_comparable(before, place, tolerance=arguments.tolerance, cpus=cpus)
    return before


def read_json(path: str, place: str) -> Any:
    """A file's JSON; raises ``InvalidInput``."""
    try:
        return json.loads(Path(path).read_bytes())
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        mend = "give what `wharfinger profile -o json` wrote"
        raise InvalidInput(f"{place}: {reason}; {mend}") from None


def _changes(before: Any, after: Record) -> list[Record]:
    from dataclasses import asdict  # noqa: PLC0415

    from wharfinger.profiler.comparison import compare  # noqa: PLC0415

    return [
        {**asdict(change), "significant": change.is_significant}
        for change in compare(before, after)
    ]


def _draw(document: Record, path: str) -> None:
    from wharfinger.experiments.profile_picture import draw  # noqa: PLC0415

    draw(document, Path(path))


# --- for people --------------------------------------------------------------------------------


def _score_text(score: Record | None) -> str:
    if score is None:
        return fmt.NONE
    if score["at_least"]:
        return f">= {score['value']:.0f}"
    return f"{score['value']:.0f} ({score['low']:.0f} to {score['high']:.0f})"


def _tolerated_text(row: Record) -> str:
    return _marked(row, "tolerated", _score_text(row["tolerated"]))


def _marked(row: Record, kind: str, text: str) -> str:
    return f"{text} estimated" if kind in row["estimated"] else text


def _caused_text(row: Record) -> str:
    by, text = row["caused_by"], _marked(row, "caused", _score_text(row["caused"]))
    return f"{text} {by}" if by not in (None, "probe") else text


def _beyond_text(row: Record) -> str:
    """What is lost of performance per CPU second, and caused beyond CPU time; else nothing."""
    beyond = row["beyond_cpu"] or {"loss": None, "caused": None}
    loss, told = beyond["loss"], []
    if loss is not None and loss["low"] > 0:
        told.append(f"-{loss['value']:.0%} at {loss['intensity']:.0f}")
    if beyond["caused"] is not None:
        told.append(f"causes {_score_text(beyond['caused'])}")
    return ", ".join(told) or fmt.NONE


def _lowest(row: Record) -> str:
    if not row["curve"]:
        return fmt.NONE
    last = row["curve"][-1]
    return f"{last['performance']:.0%} at {last['intensity']:.0f}"


def _why(row: Record) -> str:
    return row["reason"] or row["caused_reason"] or fmt.NONE


_COLUMNS = [
    column("SOURCE", "name"),
    column("VERDICT"),
    ("TOLERATED", _tolerated_text),
    ("CAUSED", _caused_text),
    ("KEEPS", _lowest),
    ("BEYOND-CPU", _beyond_text),
    ("WHY NOT", _why),
]


def _sibling_text(row: Record) -> str:
    told = row["sibling"]
    if told is None:
        return fmt.NONE
    return f"{_score_text(told['tolerated'])}, causes {_score_text(told['caused'])}"


def _columns(document: Record) -> list[Any]:
    there = any(row["sibling"] for row in document["sources"])
    return [*_COLUMNS[:-1], *([("ON THE SIBLING", _sibling_text)] if there else []), _COLUMNS[-1]]


def _change_text(row: Record) -> str:
    if row["source"]:
        return f"{row['change']:+.0f} ({row['low']:+.0f} to {row['high']:+.0f})"
    return f"{row['change']:+.1%} ({row['low']:+.1%} to {row['high']:+.1%})"


_CHANGES = [
    column("CHANGE OF", "kind"),
    column("SOURCE", "source"),
    ("BEFORE", lambda row: fmt.significant(row["before"])),
    ("AFTER", lambda row: fmt.significant(row["after"])),
    ("CHANGE", _change_text),
    ("P", lambda row: f"{row['p_value']:.2g}"),
    column("SIGNIFICANT", form=fmt.yes_no),
]


def _text(document: Record) -> str:
    baseline = document["baseline"]
    value = fmt.significant(baseline["value"])
    low, high = fmt.significant(baseline["low"]), fmt.significant(baseline["high"])
    quantity = baseline["quantity"].replace("_", " ")
    runs = f"{document['runs']} runs, " if document["runs"] > 1 else ""
    head = (
        f"alone: {quantity} {value} ({low} to {high}), one reading varies by "
        f"{baseline['noise']:.1%}; {runs}{document['rounds']} rounds in "
        f"{fmt.duration(document['seconds'])}"
    )
    lines = [
        f"{document['name']}: measured by {document['measured_by']}",
        head,
        "",
        table(document["sources"], _columns(document)),
        "",
        *document["sentences"],
    ]
    if "compared" in document:
        count = sum(bool(row["source"]) for row in document["compared"])
        words = f"Since before (p of scores corrected for their number, {count}):"
        lines += ["", words, table(document["compared"], _CHANGES, "nothing to compare")]
    return "\n".join(lines)
