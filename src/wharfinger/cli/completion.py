"""``wharfinger completion``: a script that teaches a shell our commands and options."""

import argparse
import sys

from wharfinger.cli.main import COMMANDS, build_parser
from wharfinger.errors import Unavailable


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("shell", choices=["bash", "zsh", "tcsh"])


def run(arguments: argparse.Namespace) -> None:
    """Print it."""
    try:
        import shtab  # noqa: PLC0415 - an extra
    except ImportError:
        mend = "install it with: pip install 'wharfinger[completion]'"
        raise Unavailable(f"completion needs shtab; {mend}") from None
    sys.stdout.write(shtab.complete(build_parser(COMMANDS), arguments.shell))
