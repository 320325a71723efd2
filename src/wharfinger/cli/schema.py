"""``wharfinger schema``: the manifest's JSON Schema, for editors and other programs."""

import argparse

from wharfinger.cli.options import add_output
from wharfinger.cli.output import show, to_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    add_output(parser, ["json", "yaml"])


def run(arguments: argparse.Namespace) -> None:
    """Print it."""
    from wharfinger.manifest import json_schema  # noqa: PLC0415 - after the call is right

    schema = json_schema()
    show(schema, arguments.output, lambda: to_json(schema))
