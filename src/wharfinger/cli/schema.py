"""``wharfinger schema``: the manifest's JSON Schema, for editors and other programs."""

import argparse

from wharfinger.cli.format import show, to_json
from wharfinger.cli.main import OK


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument(
        "-o",
        "--output",
        choices=["json", "yaml"],
        default="json",
        help="how to print (default: json)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print it."""
    from wharfinger.manifest import json_schema  # noqa: PLC0415 - after the call is right

    schema = json_schema()
    show(schema, arguments.output, lambda: to_json(schema))
    return OK
