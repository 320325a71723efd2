"""How options are declared, and those that several commands share."""

import argparse
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wharfinger.cli.readers import OUTPUTS, output_format, seconds
from wharfinger.errors import InvalidInput
from wharfinger.runtime.state_directory import default_state_directory

if TYPE_CHECKING:
    from wharfinger.cli.client import Client


def add_option(
    parser: argparse.ArgumentParser,
    option: str,
    words: str,
    default: str | None = None,
    read: Callable[[str], Any] = str,
) -> None:
    """One option.

    Args:
        parser: Of the command.
        option: Its names and its value's placeholder, such as ``--limit N``; without one it is a
            flag, with a ``...`` of its own it may be repeated.
        words: Its help.
        default: As a user would write it; told in the help.
        read: Reads the value; raises ``argparse.ArgumentTypeError``.
    """
    names = [word for word in option.split() if word.startswith("-")]
    value = " ".join(option.split()[len(names) :])
    words = (words + (f" (default: {default})" if default else "")).replace("%", "%%")
    if not value:
        parser.add_argument(*names, action="store_true", help=words)
        return
    action = "append" if value.endswith(" ...") else "store"
    metavar = value.removesuffix(" ...")
    parser.add_argument(
        *names, action=action, metavar=metavar, type=read, default=default, help=words
    )


def add_state(parser: argparse.ArgumentParser) -> None:
    """``--state``, here or before the command."""
    words = (
        "the manager's state directory (default: $WHARFINGER_STATE, else the user's XDG state "
        "folder)"
    )
    parser.add_argument("--state", metavar="DIR", default=argparse.SUPPRESS, help=words)


def add_connection(parser: argparse.ArgumentParser) -> None:
    """Which manager is meant, here or before the command."""
    add_state(parser)
    for option, value, words in (
        ("--server", "URL", "of a manager on TCP (default: $WHARFINGER_SERVER)"),
        ("--context", "NAME", "a manager that `wharfinger context` knows"),
        ("--token-file", "FILE", "the token for --server (default: $WHARFINGER_TOKEN_FILE)"),
    ):
        parser.add_argument(option, metavar=value, default=argparse.SUPPRESS, help=words)


def add_output(parser: argparse.ArgumentParser, choices: Sequence[str] = OUTPUTS) -> None:
    """``-o``; the first choice is the default."""
    words = f"output format (default: {choices[0]})"
    parser.add_argument("-o", "--output", choices=choices, default=choices[0], help=words)


def add_templated_output(parser: argparse.ArgumentParser) -> None:
    """``-o`` for what can be printed by name and by a template, too."""
    words = (
        f"{', '.join(OUTPUTS)}, name, or jsonpath=TEMPLATE such as jsonpath={{[*].name}} "
        f"(default: {OUTPUTS[0]})"
    )
    parser.add_argument(
        "-o", "--output", metavar="FORMAT", type=output_format, default=OUTPUTS[0], help=words
    )


def add_common(parser: argparse.ArgumentParser, *, templates: bool = False) -> None:
    """What every client command takes; ``templates``: output by name and by a template, too."""
    add_connection(parser)
    if templates:
        add_templated_output(parser)
    else:
        add_output(parser)


def add_wait(parser: argparse.ArgumentParser, words: str) -> None:
    """``--wait``, which does what the words say, and ``--timeout``."""
    add_option(parser, "--wait", words)
    add_option(parser, "--timeout DURATION", "with --wait: wait no longer, e.g. 5m", read=seconds)


def add_parts(parser: argparse.ArgumentParser) -> None:
    """What exchanges a part of the policy: a name, perhaps with settings in brackets."""
    for option, does in (
        ("--admission", "admits and orders"),
        ("--adaptation", "adapts what runs"),
        ("--contention", "predicts how neighbors slow each other"),
    ):
        words = f"{does}: NAME or NAME[SETTING=VALUE,...] (default: the policy's own)"
        parser.add_argument(option, default="", metavar="NAME", help=words)


def refuse(arguments: argparse.Namespace, options: Iterable[str], why: str) -> None:
    """Raise ``InvalidInput`` where one of these options, which would be ignored, is given."""
    for option in options:
        value = getattr(arguments, option.removeprefix("--").replace("-", "_"))
        if value is not None and value is not False:
            raise InvalidInput(f"{option} {why}; leave it out")


def state_path(arguments: argparse.Namespace) -> Path:
    """The state directory that is meant by a command that is no client, absolute."""
    for option in ("--server", "--context"):
        if hasattr(arguments, option[2:]):
            raise InvalidInput(f"{option}: {arguments.command} works on this machine; leave it out")
    state = getattr(arguments, "state", None)
    return (Path(state) if state else default_state_directory()).absolute()


def connect(arguments: argparse.Namespace) -> "Client":
    """A client of the manager that is meant."""
    # Here and not above: HTTP takes longer to import than all of --help may take.
    from wharfinger.cli.client import Client  # noqa: PLC0415
    from wharfinger.cli.contexts import find_manager  # noqa: PLC0415

    return Client(find_manager(arguments, os.environ))


def allowed_cpus(option: str, given: Sequence[int] | None) -> tuple[int, ...]:
    """The CPUs that an option names; empty = it was not given.

    Raises:
        InvalidInput: This process may not use one of them.
    """
    from wharfinger.host.topology import format_cpus  # noqa: PLC0415 - help needs none of it

    allowed = os.sched_getaffinity(0)
    if others := set(given or ()) - allowed:
        problem = f"{option}: {format_cpus(others)} may not be used here"
        raise InvalidInput(f"{problem}; name some of {format_cpus(allowed)}")
    return tuple(given or ())
