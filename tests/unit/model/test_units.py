"""Quantities: what is read, what is refused with which mend, and formatting back."""

import doctest

import pytest

from wharfinger.errors import InvalidInput
from wharfinger.model import units


def test_the_examples_in_the_docstrings_hold():
    result = doctest.testmod(units)
    assert result.attempted >= 10
    assert result.failed == 0


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2ms", 0.002),
        ("10m", 600),
        ("1h30m", 5400),
        ("500us", 0.0005),
        ("1.5s", 1.5),
        ("1ns", 1e-9),
        ("7d", 604800),
        ("1d2h3m4s5ms6us7ns", 93784.005006007),
        ("0.3s", 0.3),
    ],
)
def test_durations(text, seconds):
    assert units.parse_duration_seconds(text) == seconds


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("40000/s", 40000),
        ("40k/s", 40000),
        ("1.2e9/s", 1.2e9),
        ("3M/min", 50000),
        ("7200/h", 2),
        ("0.1/s", 0.1),
        ("5e-1/s", 0.5),
        ("2T/s", 2e12),
    ],
)
def test_rates(text, rate):
    assert units.parse_rate_per_second(text) == rate


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("4Gi", 4 * 2**30),
        ("512Mi", 512 * 2**20),
        ("1.5G", 1_500_000_000),
        ("1024", 1024),
        ("1e3", 1000),
        ("0.5Ki", 512),
        ("8191Pi", 8191 * 2**50),
    ],
)
def test_bytes(text, size):
    assert units.parse_bytes(text) == size


@pytest.mark.parametrize(
    ("text", "fraction"), [("5%", 0.05), ("0.05", 0.05), ("0", 0), ("100%", 1), ("12.5%", 0.125)]
)
def test_fractions(text, fraction):
    assert units.parse_fraction(text) == fraction


@pytest.mark.parametrize(
    ("text", "cpu"), [("250m", 250), ("2", 2000), ("0.5", 500), ("1.250", 1250)]
)
def test_cpus(text, cpu):
    assert units.parse_cpu_millicpus(text) == cpu


PARSERS = (
    units.parse_duration_seconds,
    units.parse_rate_per_second,
    units.parse_bytes,
    units.parse_fraction,
    units.parse_cpu_millicpus,
)


@pytest.mark.parametrize("parse", PARSERS)
@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            " ",
            "nan",
            "NaN",
            ".nan",
            "inf",
            "-inf",
            "Infinity",
            "abc",
            "-1",
            "-5%",
            "-1s",
            "-1/s",
        ),
        *(
            "1e999",
            "1e999/s",
            "1e999s",
            "1e99999999999999999999",
            "9" * 400,
            "1" + "0" * 10_000_000,
        ),
        *("٣", "٣s", "²", "1٠/s", "٥%", "1_000", "0x10", "1,5", "1 s", " 1s", "1s\n", "1\0", "+1"),
        *(
            "2 parsecs",
            "1.s",
            ".5s",
            "1.5.5s",
            "1h1h",
            "30m1h",
            "5S",
            "1K",
            "1KB",
            "1//s",
            "/s",
            "%",
        ),
        *("101%", "1e-999", "\ud800", "1\n", "--1", "1e", "1e+", "e5"),
    ],
)
def test_nonsense_is_refused_in_one_short_line_with_a_mend(parse, text):
    with pytest.raises(InvalidInput) as refused:
        parse(text)
    message = str(refused.value)
    assert "\n" not in message
    assert len(message) < 200
    assert "write" in message
    message.encode()  # printable on any terminal


@pytest.mark.parametrize(
    ("parse", "text", "says"),
    [
        (units.parse_duration_seconds, "10", "'10' has no unit; write e.g. 10s or 10ms"),
        (
            units.parse_duration_seconds,
            "2 parsecs",
            "'2 parsecs' is not a duration; write e.g. 2ms, 1.5s or 1h30m",
        ),
        (units.parse_duration_seconds, "0s", "more than zero"),
        (units.parse_duration_seconds, "0.5ns", "finer than 1ns"),
        (units.parse_duration_seconds, "36501d", "longer than 100 years"),
        (units.parse_rate_per_second, "40000", "'40000' says no period; write e.g. 40000/s"),
        (units.parse_rate_per_second, "0/s", "more than zero"),
        (units.parse_rate_per_second, "2e18/s", "too large"),
        (units.parse_bytes, "1.5", "whole number of bytes"),
        (units.parse_bytes, "8192Pi", "too large"),
        (units.parse_bytes, "0", "at least 1"),
        (units.parse_fraction, "1.01", "more than the whole"),
        (units.parse_cpu_millicpus, "0.0005", "finer than a thousandth"),
        (units.parse_cpu_millicpus, "2.5m", "finer than a thousandth"),
        (units.parse_cpu_millicpus, "0", "no CPU at all"),
        (units.parse_cpu_millicpus, "1000001", "too many CPUs"),
    ],
)
def test_a_refusal_says_what_is_wrong(parse, text, says):
    with pytest.raises(InvalidInput) as refused:
        parse(text)
    assert says in str(refused.value)


def test_a_least_size_is_named_with_what_was_meant():
    with pytest.raises(InvalidInput, match="write at least 1Mi"):
        units.parse_bytes("4", minimum=2**20)


def test_zero_may_be_a_duration_where_it_has_a_meaning():
    assert units.parse_duration_seconds("0s", allow_zero=True) == 0
    assert units.format_duration(0.0) == "0s"


def test_a_quoted_value_stays_short_and_on_one_line():
    assert units.quoted("a\nb") == r"'a\nb'"
    assert units.quoted("x" * 10_000_000) == f"'{'x' * 40}'… (10000000 characters)"
