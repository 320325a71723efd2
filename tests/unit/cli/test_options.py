"""How options are declared, and which are refused."""

import argparse
from functools import partial

import pytest

from wharfinger.cli.options import add_option, refuse
from wharfinger.cli.readers import seconds
from wharfinger.errors import InvalidInput


@pytest.fixture
def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser()
    add = partial(add_option, parser)
    add("-n --names NAME ...", "of workloads")
    add("--policies P,Q,...", "with a list as placeholder")
    add("--all", "100% of them")
    add("--wait DURATION", "as long", "2m", seconds)
    return parser


def test_an_option_is_a_flag_or_has_a_value_once_or_repeatedly(parser):
    given = parser.parse_args(["-n", "a", "--names", "b", "--policies", "p,q"])
    assert (given.names, given.policies, given.all, given.wait) == (["a", "b"], "p,q", False, 120)
    help_text = " ".join(parser.format_help().split())
    assert "as long (default: 2m)" in help_text
    assert "100% of them" in help_text


def test_options_that_would_be_ignored_are_refused(parser):
    refuse(parser.parse_args([]), ["--names", "--all"], "is for others")
    for argv in (["--names", "a"], ["--all"], ["--wait", "0"]):
        with pytest.raises(InvalidInput, match=f"^{argv[0]} is for others; leave it out$"):
            refuse(parser.parse_args(argv), [argv[0]], "is for others")
