"""``wharfinger version``."""

import argparse
import platform

from wharfinger import __version__
from wharfinger.cli.options import add_output
from wharfinger.cli.output import show


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    add_output(parser)


def run(arguments: argparse.Namespace) -> None:
    """Print it."""
    facts = {
        "name": "wharfinger",
        "version": __version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
    }
    show(facts, arguments.output, lambda: f"wharfinger {__version__}")
