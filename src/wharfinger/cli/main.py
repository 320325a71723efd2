"""``wharfinger``: finds the command, runs it, and turns what went wrong into one line.

Only the module of the command that was asked for is imported, and ``--help`` imports none:
so help and completion come as fast as Python itself starts.
"""

import argparse
import importlib
import io
import os
import signal
import sys
from collections.abc import Iterable, Sequence

from wharfinger import __version__
from wharfinger.errors import InvalidInput, InvalidManifest, WharfingerError

# ``typing`` costs a tenth of what ``--help`` may take; type checkers know this spelling.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

COMMANDS = {
    "demo": "the whole loop on this machine with real programs",
    "up": "start a manager and its API",
    "down": "stop the manager, and its workloads if asked",
    "run": "run a program as a workload: its output and exit status become the command's",
    "submit": "submit workloads, or run ended ones again",
    "apply": "create, update or replace workloads, so that they are as their manifests say",
    "get": "list workloads, servers, platforms, queues, events, or show the status",
    "describe": "show all that is known of a workload or a server",
    "explain": "say why a workload is where it is, why not elsewhere, or why it waits",
    "logs": "print a workload's output",
    "exec": "run a command beside a workload's program",
    "top": "show what running workloads use",
    "update": "change what a workload must reach or may use",
    "wait": "wait until workloads have completed or ended, run, are ready, or keep their targets",
    "stop": "stop workloads, and keep their records and output",
    "restart": "stop workloads' programs and start them again",
    "suspend": "give workloads no CPU time, or no place while they wait",
    "resume": "end the suspension of workloads",
    "delete": "stop workloads, and delete their records and output",
    "history": "show runs that have ended, and what each took",
    "cordon": "place no new work on servers",
    "drain": "cordon servers, and migrate what is restartable away",
    "uncordon": "place new work on servers again",
    "context": "list, choose or change the managers that are known by name",
    "slurm": "hand jobs with targets to Slurm, for a manager to place",
    "ibench": "list, run or validate the sources of interference",
    "profile": "measure what interference a program tolerates and causes",
    "pair": "say which profiled programs share a server's cores",
    "schema": "print the JSON Schema of the manifest",
    "completion": "print a completion script for a shell",
    "classify": "predict performance from a few measurements, or evaluate such predictions",
    "contention": "predict what several neighbors together take of a service's performance",
    "simulate": "run a scenario of servers and workloads under one policy or several",
    "replay": "decide a recorded log again, and compare the decisions",
    "experiment": "list or run the papers' tables and figures, and comparisons of ours",
    "version": "print the version",
}

MODULES = {
    "apply": "submit",
    **dict.fromkeys(
        ("stop", "restart", "suspend", "resume", "cordon", "drain", "uncordon"), "verbs"
    ),
}
"""Where a command is, if not in the module of its own name."""

GLOBAL_OPTIONS = (
    ("--state", "DIR", "the manager's state directory"),
    ("--server", "URL", "of a manager on TCP"),
    ("--context", "NAME", "a manager that `wharfinger context` knows"),
    ("--token-file", "FILE", "the token for --server"),
)

OK, FAILED, WRONG_CALL, NOT_AS_EXPECTED = 0, 1, 2, 3
"""Exit status: done; the operation failed; the call was wrong; ran, and did not hold."""
NOT_RUN = 125
"""Of commands that end as a program does: it could not be run, or how it ended is unknown."""


def _help_formatter(prog: str) -> argparse.HelpFormatter:
    """As wide as the terminal, found without importing ``shutil``."""
    return argparse.HelpFormatter(prog, width=_terminal_columns() - 2)


def _terminal_columns() -> int:
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns) > 20:
        return int(columns)
    try:
        return max(20, os.get_terminal_size().columns)
    except OSError:
        return 80


class CommandParser(argparse.ArgumentParser):
    """argparse whose errors are one line, and whose options may stand between names."""

    intermixed = True
    """Options may stand anywhere; not for the parser that finds the command."""
    passes_on = ""
    """The argument that takes all after ``--`` as it is, for a program of the user's."""
    may_pass_nothing = False
    """Whether there may be no such program."""

    def parse_known_args(  # type: ignore[override] # argparse overloads it for namespaces
        self, args: "Sequence[str] | None" = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """As argparse does, but ``get events --follow NAME`` is understood too."""
        if self.passes_on:
            return self._parse_passing_on(list(args or ()), namespace)
        # Actions under a command have their own parsers, which are so.
        if not self.intermixed or self._subparsers is not None:
            return super().parse_known_args(args, namespace)
        # The method below comes back here, for the options and then for the names.
        self.intermixed = False
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self.intermixed = True

    def _parse_passing_on(
        self, args: list[str], namespace: argparse.Namespace | None
    ) -> tuple[argparse.Namespace, list[str]]:
        # argparse would drop a second ``--``, and in some versions take options after the first.
        end = args.index("--") if "--" in args else len(args)
        parsed, unknown = super().parse_known_args(args[:end], namespace)
        words = [*getattr(parsed, self.passes_on), *args[end + 1 :]]
        if not words and not self.may_pass_nothing:
            self.error("name the program and its arguments after --")
        setattr(parsed, self.passes_on, words)
        return parsed, unknown

    def error(self, message: str) -> "NoReturn":
        """Say what is wrong with the call, and end."""
        command = self.prog.partition(" ")[2]
        place = f"{command}: " if command else ""
        self.exit(WRONG_CALL, f"wharfinger: {place}{message}; see {self.prog} --help\n")


def add_parser(actions: "Any", name: str, words: str) -> argparse.ArgumentParser:
    """The parser of a command, or of one of its actions; ``words`` say what it does."""
    description, form = f"{words[0].upper()}{words[1:]}.", _help_formatter
    parser: argparse.ArgumentParser = actions.add_parser(
        name, help=words, description=description, allow_abbrev=False, formatter_class=form
    )
    return parser


def build_parser(commands: Iterable[str] = ()) -> CommandParser:
    """The parser, with the options of these commands; all others are only named."""
    parser = CommandParser(
        prog="wharfinger",
        description="A cluster manager that is told performance targets, not reservations.",
        epilog="Exit status: 0 done; 1 the operation failed; 2 the call was wrong; "
        "3 it ran and the stated expectation does not hold.",
        allow_abbrev=False,
        formatter_class=_help_formatter,
    )
    parser.add_argument("--version", action="version", version=f"wharfinger {__version__}")
    # Given here or after the command: whichever is written wins.
    for option, value, words in GLOBAL_OPTIONS:
        parser.add_argument(option, metavar=value, default=argparse.SUPPRESS, help=words)
    subparsers = parser.add_subparsers(
        dest="command",
        metavar="COMMAND",
        title="commands",
        required=True,
        parser_class=CommandParser,
    )
    wanted = set(commands)
    for name, words in COMMANDS.items():
        sub = add_parser(subparsers, name, words)
        if name in wanted:
            module = importlib.import_module(f"wharfinger.cli.{MODULES.get(name, name)}")
            module.add_arguments(sub)
            sub.set_defaults(run=module.run)
    return parser


def find_command(argv: Sequence[str]) -> str | None:
    """The first word that is neither an option nor an option's value."""
    words = iter(argv)
    for word in words:
        if word in {option for option, _, _ in GLOBAL_OPTIONS}:
            next(words, None)
        elif not word.startswith("-"):
            return word
    return None


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; its exit status."""
    words = sys.argv[1:] if argv is None else argv
    command = find_command(words)
    try:
        _prepare_output()
        arguments = build_parser([command] if command in COMMANDS else []).parse_args(words)
        status: int = arguments.run(arguments) or OK
        sys.stdout.flush()
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except BrokenPipeError:
        # Python must not complain either, when it flushes at the end.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
        return 128 + signal.SIGPIPE
    except (WharfingerError, OSError) as error:
        complain(error)
        return WRONG_CALL if isinstance(error, InvalidInput) else FAILED
    # A fault of ours must not look like one of the user's, and a traceback helps no user.
    except Exception as error:
        if os.environ.get("WHARFINGER_DEBUG"):
            raise
        complain(f"a fault of wharfinger itself, set WHARFINGER_DEBUG=1 to see where: {error!r}")
        return FAILED
    return status


def _prepare_output() -> None:
    """A terminal that lacks a character shows its code; a closed output swallows all."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")  # noqa: PTH123, SIM115 - no pathlib in --help
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def complain(problem: Exception | str) -> None:
    """One line on standard error; for a manifest, one line per problem."""
    from wharfinger.cli.output import printable  # noqa: PLC0415 - only where it is needed

    lines = problem.problems if isinstance(problem, InvalidManifest) else [str(problem)]
    for line in lines:
        print(f"wharfinger: {printable(line)}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
