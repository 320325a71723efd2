"""How options are declared, and how their values are read."""

import argparse
from functools import partial

import pytest

from wharfinger.cli.options import add_option, probability, refuse, seconds, share, whole
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


@pytest.mark.parametrize(
    ("read", "text", "value"),
    [
        (whole(0), "0", 0), (whole(1, 7), "7", 7), (share, "10%", 0.1), (share, "3", 3.0),
        (probability, "0.5", 0.5), (probability, "99%", 0.99), (seconds, "1.5", 1.5),
        (seconds, "0", 0.0), (seconds, "1m", 60.0),
    ],
)  # fmt: skip
def test_values_that_are_read(read, text: str, value: float):
    assert read(text) == pytest.approx(value)


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (whole(1), "0"), (whole(0, 7), "8"), (whole(0), "-1"), (whole(0), "1.5"), (whole(0), ""),
        (whole(0), "1_0"), (whole(0), "9" * 5000), (share, "0"), (share, "inf"), (share, "nan"),
        (probability, "1"), (probability, "0.49"), (probability, "sure"), (seconds, "soon"),
    ],
)  # fmt: skip
def test_values_that_are_refused(read, text: str):
    with pytest.raises(argparse.ArgumentTypeError, match="'"):
        read(text)
