"""Warnings: what a manifest may say, and its user probably does not mean."""

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import TypeAlias

from wharfinger.manifest.sections import Document
from wharfinger.model.units import format_duration
from wharfinger.model.workload import (
    NAMED_NUMBERS,
    MetricKind,
    RestartPolicy,
    Workload,
    WorkloadType,
)

_READERS = ("progress", "http", "command", "load")
_UNMEASURED = "nothing measures it, so it is unknown whether it is kept; write e.g. measure: "
_SERVICE_MEASURE = "{load: {command: [...], regex: 'rps=(?P<throughput>[0-9.]+)'}}"
_JOB_MEASURE = "{progress: {regex: 'done=([0-9]+)'}}"
_Warnings: TypeAlias = Iterator[tuple[str, str]]
"""Fields, and what is odd about each."""


def advise(workload: Workload, document: Document) -> None:
    """Add the warnings of a workload that is right to those of its document."""
    measured = (*_unmeasured(workload, document), *_unseen(workload), *_unread(workload))
    warnings = (*measured, *_lifetime(workload), *_buffered(workload))
    for path, message in warnings:
        document.warn(path, message)


def _unmeasured(workload: Workload, document: Document) -> _Warnings:
    if any(f"spec.measure.{way}" in document.lines for way in _READERS):
        return
    if workload.type is WorkloadType.LATENCY_CRITICAL:
        yield "spec.target", _UNMEASURED + _SERVICE_MEASURE
    elif workload.target is not None and workload.target.rate_per_second is not None:
        yield "spec.target.rate", _UNMEASURED + _JOB_MEASURE


def _unseen(workload: Workload) -> _Warnings:
    """Half of a service's target, where the measures that there are say only the other half."""
    target, seen = workload.target, _quantities(workload)
    if workload.type is not WorkloadType.LATENCY_CRITICAL or target is None or not seen:
        return
    unknown = "no measure tells it, so it is unknown whether it is kept; name a group of the regex"
    if target.latency is not None and "latency" not in seen:
        yield "spec.target.latency", f"{unknown}, e.g. (?P<latency_ms>[0-9.]+)"
    if target.throughput_per_second is not None and seen <= {"latency", "offered"}:
        yield "spec.target.throughput", f"{unknown}, e.g. (?P<throughput>[0-9.]+)"


def _unread(workload: Workload) -> _Warnings:
    """A load that is told of what is not followed by its load."""
    target, measure = workload.target, workload.measure
    service = workload.type is WorkloadType.LATENCY_CRITICAL
    if service and target is not None and target.latency is not None:
        return
    for field, regex in (("progress", measure.progress_regex), ("load", measure.load_regex)):
        if regex and "offered" in re.compile(regex).groupindex:
            message = "its group offered is read only of services with a bound on their latency"
            yield f"spec.measure.{field}.regex", f"{message}; remove the group"


def _quantities(workload: Workload) -> set[str]:
    """What a service's measures tell; empty = nothing, or unknown."""
    measure, target = workload.measure, workload.target
    if measure.command is not None:
        return set()
    plain = "throughput" if target and target.throughput_per_second is not None else "latency"
    seen: set[str] = set()
    for regex in filter(None, (measure.progress_regex, measure.load_regex)):
        names = re.compile(regex).groupindex
        seen |= {NAMED_NUMBERS[name][0] for name in names} or {plain}
    if measure.http is not None:
        histogram = measure.http.kind is MetricKind.HISTOGRAM
        seen |= {"latency", "throughput"} if histogram else {plain}
    return seen


def _lifetime(workload: Workload) -> _Warnings:
    run, expected = workload.run, workload.expected_seconds
    if run.time_limit_seconds is not None and run.time_limit_seconds < (expected or 0.0):
        limit, duration = map(format_duration, (run.time_limit_seconds, expected or 0.0))
        message = f"{limit} is less than expectedDuration {duration}: it would be stopped early"
        yield "spec.run.timeLimit", f"{message}; raise the limit"
    jobs = (WorkloadType.BATCH, WorkloadType.SINGLE_NODE)
    if run.restart.policy is RestartPolicy.ALWAYS and workload.type in jobs:
        message = f"always: a {workload.type} workload is started again after success, too"
        yield "spec.run.restart", f"{message}, and never completes; write on-failure"


def _buffered(workload: Workload) -> _Warnings:
    """Lines that a measure waits for, and that their program keeps in a buffer."""
    measure, run = workload.measure, workload.run
    if measure.load_command and (measure.load_regex or measure.progress_regex):
        yield from _advice("spec.measure.load.command", measure.load_command, run.env)
    if measure.progress_regex and not measure.progress_file and not measure.load_command:
        yield from _advice("spec.run.command", run.command, run.env)


def _advice(path: str, command: Sequence[str], env: Mapping[str, str]) -> _Warnings:
    for stage in _stages(command):
        mend = buffering(stage, env)
        if mend:
            program = PurePath(stage[0]).name
            yield path, f"{program} may keep its lines in a buffer, unseen by measure; {mend}"
            return


def _stages(command: Sequence[str]) -> list[list[str]]:
    """The programs whose output goes to the next, where that can be told from the words.

    >>> _stages(["sh", "-c", "ping host | grep -o time=.*"])
    [['ping', 'host'], ['grep', '-o', 'time=.*']]
    """
    if PurePath(command[0]).name not in ("sh", "bash", "dash"):
        return [[*command]]
    if (
        len(command) != 3
        or not command[1].endswith("c")
        or re.search(r"[\n`$(){};&<>]", command[2])
    ):
        return []
    try:
        lexer = shlex.shlex(command[2], posix=True, punctuation_chars="|")
        lexer.commenters = ""
        words = [*lexer]
    except ValueError:
        return []
    stages: list[list[str]] = [[]]
    for word in words:
        if word == "|":
            stages.append([])
        elif stages[-1] or word != "exec":
            stages[-1].append(word)
    return stages if all(stages) else []


def buffering(command: Sequence[str], env: Mapping[str, str]) -> str:
    """What to write so that a program's lines come out at once; empty = nothing, or unknown.

    >>> buffering(["grep", "rps"], {}), buffering(["grep", "--line-buffered", "rps"], {})
    ('write grep --line-buffered', '')
    """
    name = re.sub(r"[0-9.]+$", "", PurePath(command[0]).name)
    mend = _MENDS.get(name)
    return mend(command[1:], env) if mend else ""


def _python(arguments: Sequence[str], env: Mapping[str, str]) -> str:
    if env.get("PYTHONUNBUFFERED"):
        return ""
    for index, word in enumerate(arguments):
        if not re.fullmatch("-[A-Za-z]+", word):
            return "" if word.startswith("-") else _PYTHON_MEND  # a script, or an odd option
        if "u" in word:
            return ""
        if word.endswith("c"):
            return "" if "flush" in "".join(arguments[index:]) else _PYTHON_MEND
        if word.endswith(("m", "W", "X")):
            return ""
    return ""


_PYTHON_MEND = "write python -u, or flush after each line"


def _unless(flags: str, mend: str) -> Callable[[Sequence[str], Mapping[str, str]], str]:
    """The mend, unless one of the arguments is as the flags' pattern."""
    return lambda arguments, _: "" if any(re.search(flags, word) for word in arguments) else mend


_AWK = _unless("fflush|^-W|^--?interactive", "call fflush() after each line")
_GREP = _unless("^--line-buffered$|^-[a-zA-Z]*[cqlL]", "write grep --line-buffered")
_MENDS: dict[str, Callable[[Sequence[str], Mapping[str, str]], str]] = {
    "python": _python,
    "awk": _AWK,
    "gawk": _AWK,
    "mawk": _AWK,
    "grep": _GREP,
    "egrep": _GREP,
    "fgrep": _GREP,
    "sed": _unless("^-[a-zA-Z]*u|^--(unbuffered|line-buffered)$", "write sed -u"),
    "cut": _unless("^$", "write stdbuf -oL cut"),
    "tr": _unless("^$", "write stdbuf -oL tr"),
}
