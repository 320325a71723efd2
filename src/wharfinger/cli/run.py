"""``wharfinger run``: a program as a workload, in the foreground until it ends, or detached.

Its output is copied to ours and its exit status becomes ours; an interrupt asks it to stop.
"""

import argparse
import json
import os
import re
import secrets
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar

from wharfinger.cli.following import last_sequence, patiently
from wharfinger.cli.main import NOT_RUN, OK, complain
from wharfinger.cli.options import add_connection, add_option, connect
from wharfinger.cli.output import Record
from wharfinger.cli.submit import warn
from wharfinger.cli.waiting import await_news
from wharfinger.errors import Conflict, InvalidInput, NotFound, WharfingerError

if TYPE_CHECKING:
    from wharfinger.cli.client import Answer, Client

PATIENCE_SECONDS = 2.0
"""After which a user wants to know why it has not started."""
OUTPUT_SECONDS = 2.0
PIECE_BYTES = 256 * 1024
_RUNNING = ("running", "adjusting")
_PERCENTILES = {"p50": 50, "p90": 90, "p95": 95, "p99": 99, "p999": 99.9}

T = TypeVar("T")

# Option, the field of the manifest's spec that it sets, and what it is.
_FIELDS = (
    ("--throughput RATE", "target.throughput", "to sustain, e.g. 40000/s; with or without --p99"),
    ("--within DURATION", "target.completionTime", "to complete within this time, e.g. 10m"),
    ("--rate RATE", "target.rate", "work per second, e.g. 1.2e9/s, as --measure-regex reads it"),
    ("--cpu CPUS", "resources.cpu", "reserved CPUs, e.g. 500m or 2"),
    ("--memory BYTES", "resources.memory", "limit on memory, e.g. 1Gi"),
    ("--priority N", "priority", "higher goes first"),
    ("--tolerance SHARE", "tolerance", "how far the target may be missed, e.g. 5%"),
    ("--workdir DIR", "run.workingDir", "where it runs (default: here; / on another machine)"),
    ("--ready-port PORT", "run.ready.port", "it is ready when it accepts connections there"),
    ("--ready-http URL", "run.ready.http", "it is ready when this answers"),
    (
        "--restart POLICY",
        "run.restart",
        "after its end: always, on-failure (default of a detached service) or never",
    ),
    ("--time-limit DURATION", "run.timeLimit", "stop it as failed after this time"),
    ("--measure-regex REGEX", "measure.progress.regex", "its progress, as its output tells it"),
    ("--profile MODE", "profile.mode", "copy, live or none (default: copy if it has a target)"),
)
_WHOLE_NUMBERS = ("priority", "run.ready.port")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.passes_on = "words"  # type: ignore[attr-defined] # of our own parser class
    words = "the program and its arguments, after --; no shell"
    parser.add_argument("words", metavar="COMMAND", nargs="*", help=words)
    add = partial(add_option, parser)
    add("--name NAME", "of the workload (default: made from the program's)")
    for name, percentile in _PERCENTILES.items():
        add(f"--{name} DURATION", f"bound on the {percentile:g}th percentile of latency, e.g. 5ms")
    for option, field, words in _FIELDS:
        add(option, words, read=int if field in _WHOLE_NUMBERS else str)
    add("--env KEY[=VALUE] ...", "in its environment, by default with your own value; repeatable")
    add("--detach", "print its name and return")
    add("--rm", "delete its record and output at its end")
    add_connection(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run it; its exit status."""
    client = connect(arguments)
    try:
        submitted = _submit(client, arguments)
        if arguments.detach:
            print(submitted["name"])
            return OK
        return Attached(client, submitted["name"], submitted["run"], remove=arguments.rm).run()
    except InvalidInput:
        raise
    except (WharfingerError, OSError) as error:
        if isinstance(error, BrokenPipeError):
            raise
        complain(error)
        return NOT_RUN


# --- what is submitted ------------------------------------------------------------------------


def _submit(client: "Client", arguments: argparse.Namespace) -> Record:
    manifest = make_manifest(arguments, os.environ)
    directory = "/" if client.address.remote else str(Path.cwd())
    if client.address.remote and not (arguments.workdir or "/").startswith("/"):
        where = f"{arguments.workdir!r} is taken from / on the manager's machine"
        complain(f"warning: --workdir: {where}; write an absolute path of that machine")
    client.wait_for_manager()
    query = {"working_directory": directory, "source": "run"}
    body = json.dumps(manifest).encode()
    answer: list[Record] = client.send(
        "POST", "workloads", query=query, body=body, content_type="application/json"
    )
    (submitted,) = answer
    name = submitted["name"]
    if submitted["outcome"] == "unchanged":
        mend = f"`wharfinger logs -f {name}` follows it, --name gives another name"
        raise Conflict(f"workload {name!r} runs already; {mend}")
    warn([submitted])
    return submitted


def make_manifest(arguments: argparse.Namespace, environment: Any) -> Record:
    """The manifest that the options stand for; its type follows from the target."""
    spec: Record = {"run": {"command": arguments.words}}
    for option, field, _ in _FIELDS:
        value = _given(arguments, option)
        if value is not None:
            _set(spec, field, value)
    if bounds := [name for name in _PERCENTILES if getattr(arguments, name)]:
        if len(bounds) > 1:
            raise InvalidInput(f"--{bounds[0]} and --{bounds[1]}: a target has one bound; give one")
        bound = {"percentile": _PERCENTILES[bounds[0]], "below": getattr(arguments, bounds[0])}
        _set(spec, "target.latency", bound)
    target = spec.get("target", {})
    serves = bool({"latency", "throughput"} & target.keys())
    if serves and {"completionTime", "rate"} & target.keys():
        mend = "leave --within and --rate out, or the others"
        raise InvalidInput(f"run: a service's target and a batch job's are given; {mend}")
    spec["type"] = "latency-critical" if serves else "batch"
    if not arguments.detach:
        if serves:
            # Its end is waited for; a service is else started again when it fails.
            spec["run"].setdefault("restart", "never")
    elif arguments.rm:
        spec["ttlAfterFinished"] = "1s"
    if not target:
        # Nothing is sized by what a profiling run would tell.
        spec.setdefault("profile", {"mode": "none"})
    if arguments.env:
        spec["run"]["env"] = dict(_variable(one, environment) for one in arguments.env)
    return {
        "apiVersion": "wharfinger.dev/v1alpha1",
        "kind": "Workload",
        "metadata": {"name": arguments.name or _make_name(arguments.words[0])},
        "spec": spec,
    }


def _given(arguments: argparse.Namespace, option: str) -> Any:
    return getattr(arguments, option.split(maxsplit=1)[0].removeprefix("--").replace("-", "_"))


def _set(spec: Record, field: str, value: Any) -> None:
    *sections, key = field.split(".")
    for section in sections:
        spec = spec.setdefault(section, {})
    spec[key] = value


def _variable(given: str, environment: Any) -> tuple[str, str]:
    key, equals, value = given.partition("=")
    if not equals and key not in environment:
        raise InvalidInput(f"--env: {key!r} is not in your environment; write {key}=VALUE")
    return key, value if equals else environment[key]


def _make_name(program: str) -> str:
    """A name that nothing else has: the program's, and some letters."""
    stem = re.sub(r"[^a-z0-9]+", "-", Path(program).name.lower()).strip("-")[:40].strip("-")
    return f"{stem or 'run'}-{secrets.token_hex(3)}"


# --- in the foreground ------------------------------------------------------------------------


class _Interrupted(Exception):
    """The user wants it to stop."""


class _Interrupts:
    """SIGINT and SIGTERM: raised where we wait, else as soon as we do."""

    def __init__(self) -> None:
        self.signals: list[int] = []
        self._told = 0
        self._waiting = False

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self.signals.append(number)
        if self._waiting:
            self._raise()

    def _raise(self) -> None:
        if self._told < len(self.signals):
            self._told = len(self.signals)
            raise _Interrupted

    @contextmanager
    def handled(self) -> Iterator[None]:
        """Note the signals from here on."""
        numbers = (signal.SIGINT, signal.SIGTERM)
        former = {number: signal.signal(number, self._note) for number in numbers}
        try:
            yield
        finally:
            for number, handler in former.items():
                signal.signal(number, handler)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Let a signal end the block, also one that came before it."""
        self._waiting = True
        try:
            self._raise()
            yield
        finally:
            self._waiting = False


class Attached:
    """A workload in the foreground.

    Args:
        client: Of its manager.
        name: Of the workload.
        number: Of its run; an earlier one may have to end first.
        remove: Delete it at its end.
    """

    def __init__(self, client: "Client", name: str, number: int, *, remove: bool) -> None:
        self._client, self._name, self._number, self._remove = client, name, number, remove
        self._interrupts = _Interrupts()
        self._offset = 0
        self._key = ""
        self._begun = False
        self._began = time.monotonic()
        self._told = ""

    def run(self) -> int:
        """Copy its output until it has ended; its exit status."""
        with self._interrupts.handled():
            while True:
                try:
                    ended = self._follow()
                except _Interrupted:
                    # The answer to what was asked is no longer wanted.
                    self._client.close()
                    if not self._stop():
                        return 128 + self._interrupts.signals[0]
                    continue
                except BrokenPipeError:
                    self._client.send("POST", "workloads", self._name, "stop")
                    raise
                if ended is not None:
                    return self._finish(ended)

    def _stop(self) -> bool:
        """Ask it to stop, and whether to wait for that: not when it is asked twice."""
        name = self._name
        if len(self._interrupts.signals) > 1:
            complain(f"{name} was asked to stop and is left to it; `wharfinger logs -f {name}`")
            return False
        complain(f"stopping {name}; once more leaves it to itself")
        self._client.send("POST", "workloads", name, "stop")
        return True

    def _follow(self) -> Record | None:
        """Copy a piece of its output, or wait for news; its record when it has ended."""
        try:
            if self._begun:
                self._copy(OUTPUT_SECONDS if self._key else 0)
            sequence, workload = self._ask(self._look)
        except NotFound:
            raise NotFound(f"{self._name} was deleted; how it ended is unknown") from None
        self._begun = workload["run"] >= self._number
        if self._begun and workload["ended_at"] is not None:
            self._copy(0)  # What it wrote since.
            return workload
        if not self._begun or workload["phase"] not in _RUNNING:
            self._tell_why(workload)
            with self._interrupts.waiting():
                await_news(self._client, sequence, PATIENCE_SECONDS)
        return None

    def _look(self) -> tuple[int, Record]:
        return last_sequence(self._client), self._client.get("workloads", self._name)

    def _ask(self, call: Callable[[], T]) -> T:
        """The answer, if need be of the next manager; a signal ends the wait for it."""
        with self._interrupts.waiting():
            return patiently(self._client, call)

    def _copy(self, wait_seconds: float) -> None:
        """Copy output until there is no more for now; of each start, one after the other."""
        while True:
            answer = self._read(wait_seconds)
            key = answer.headers["wharfinger-key"]
            if key != self._key:
                if self._key:
                    self._copy_rest()
                self._key, self._offset = key, 0
            elif answer.body:
                self._write(answer)
            else:
                return

    def _copy_rest(self) -> None:
        """What the start before wrote at its end."""
        with suppress(NotFound):
            answer = self._read(0, previous=True)
            while answer.body and answer.headers["wharfinger-key"] == self._key:
                self._write(answer)
                answer = self._read(0, previous=True)

    def _read(self, wait_seconds: float, *, previous: bool = False) -> "Answer":
        query = {
            "offset": self._offset,
            "limit_bytes": PIECE_BYTES,
            "wait_seconds": wait_seconds,
            "previous": previous,
        }
        path = ("workloads", self._name, "log")
        return self._ask(lambda: self._client.call("GET", *path, query=query))

    def _write(self, answer: "Answer") -> None:
        sys.stdout.buffer.write(answer.body)
        sys.stdout.buffer.flush()
        self._offset = int(answer.headers["wharfinger-next-offset"])

    def _tell_why(self, workload: Record) -> None:
        waits = time.monotonic() - self._began >= PATIENCE_SECONDS
        why = f"{workload['phase']}: {workload['message'] or workload['reason']}".rstrip(": ")
        if waits and why != self._told:
            self._told = why
            complain(f"{self._name} is {why}")

    def _finish(self, workload: Record) -> int:
        name, code, number = self._name, workload["exit_code"], workload["signal"]
        if code is None:
            why = workload["message"] or workload["reason"] or f"ended by signal {number}"
            complain(f"{name} {workload['phase']}: {why}")
        if self._remove:
            self._client.send("DELETE", "workloads", name)
        if number is not None:
            return 128 + int(number)
        return NOT_RUN if code is None else int(code)
