"""How the values of options are read."""

import argparse

import pytest

from wharfinger.cli.readers import (
    probability,
    seconds,
    seconds_above_zero,
    server_label,
    share,
    whole,
)


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
        (seconds_above_zero, "0"),
    ],
)  # fmt: skip
def test_values_that_are_refused(read, text: str):
    with pytest.raises(argparse.ArgumentTypeError, match="'"):
        read(text)


def test_a_label_is_of_all_servers_or_of_one():
    assert server_label("gpu=a100") == ("", "gpu", "a100")
    assert server_label("big:disk=a=b:c") == ("big", "disk", "a=b:c")
    for text in ("gpu", "gpu=", "=a", "a b=c", f"a={'x' * 64}"):
        with pytest.raises(argparse.ArgumentTypeError, match="is no label"):
            server_label(text)
