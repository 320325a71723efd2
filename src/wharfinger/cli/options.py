"""Options that several commands share."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from wharfinger.runtime.state_directory import default_state_directory

if TYPE_CHECKING:
    from wharfinger.cli.client import Client

FORMATS = ("table", "wide", "json", "yaml")


def add_state(parser: argparse.ArgumentParser) -> None:
    """``--state``, here or before the command."""
    parser.add_argument(
        "--state",
        metavar="DIR",
        default=argparse.SUPPRESS,
        help="the manager's state directory (default: $WHARFINGER_STATE, else the user's "
        "XDG state folder)",
    )


def add_output(parser: argparse.ArgumentParser) -> None:
    """``-o``."""
    parser.add_argument(
        "-o", "--output", choices=FORMATS, default="table", help="how to print (default: table)"
    )


def add_parts(parser: argparse.ArgumentParser) -> None:
    """What exchanges a part of the policy: a name, perhaps with settings in brackets."""
    for option, does in (
        ("--admission", "admits and orders"),
        ("--adaptation", "adapts what runs"),
        ("--contention", "predicts how neighbors slow each other"),
    ):
        parser.add_argument(
            option,
            default="",
            metavar="NAME",
            help=f"{does}: NAME or NAME[SETTING=VALUE,...] (default: the policy's own)",
        )


def add_common(parser: argparse.ArgumentParser) -> None:
    """What every client command takes."""
    add_state(parser)
    add_output(parser)


def state_path(arguments: argparse.Namespace) -> Path:
    """The state directory that is meant, absolute."""
    given = getattr(arguments, "state", None)
    return (Path(given) if given else default_state_directory()).absolute()


def connect(arguments: argparse.Namespace) -> "Client":
    """A client of the manager that is meant."""
    # Here and not above: HTTP takes longer to import than all of --help may take.
    from wharfinger.cli.client import Client  # noqa: PLC0415

    return Client(state_path(arguments))


def seconds(text: str) -> float:
    """A duration such as ``30s`` or ``5m``; a bare number is seconds.

    Raises:
        argparse.ArgumentTypeError: It is none.
    """
    # Imported where a duration is given: most calls give none.
    from wharfinger.errors import InvalidInput  # noqa: PLC0415
    from wharfinger.model.units import parse_duration_seconds  # noqa: PLC0415

    try:
        bare = text.replace(".", "", 1).isdecimal() and text.isascii()
        return parse_duration_seconds(f"{text}s" if bare else text, allow_zero=True)
    except InvalidInput as error:
        raise argparse.ArgumentTypeError(str(error)) from None
