"""The program in four versions: one result, and what differs; its experiment at a small scale."""

import os
import subprocess
import sys
from functools import cache, partial

import numpy as np
import pytest

from tests.support.pictures import shows_data
from wharfinger.catalog.programs.filtering import PROGRAM, VERSIONS
from wharfinger.experiments import ibench_figure58 as figure58
from wharfinger.experiments.registry import EXPERIMENTS

USERS = 2000
CLOSE = 1e-4
"""Of factors of about 1: doubles in one order, floats in another."""


@cache
def run(version: str) -> figure58.TimedRun:
    return figure58.run_whole(version, USERS, 3, max(os.sched_getaffinity(0)))


@pytest.mark.parametrize("version", VERSIONS[1:])
def test_all_versions_come_to_the_same_factors(version: str):
    plain = run("plain").factors
    assert plain.shape == (USERS + 17770, 16)
    assert np.abs(plain).max() > 0.3
    np.testing.assert_allclose(run(version).factors, plain, rtol=0, atol=CLOSE)


def test_a_step_comes_closer_to_the_ratings():
    words = ["plain", "--users", str(USERS), "--total", "6"]
    lines = subprocess.run([PROGRAM, *words], capture_output=True, text=True, check=True).stdout
    errors = [float(line.partition("rmse=")[2]) for line in lines.splitlines() if "rmse" in line]
    assert len(errors) == 6
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 0.9 * errors[0]


def test_later_versions_hold_less():
    footprints = [run(version).footprint_bytes for version in VERSIONS]
    assert footprints[0] > footprints[1] > footprints[2]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "VERSION: give plain, simd, reordered or memoised first"),
        (["fast"], "VERSION: give plain"),
        (["simd", "--users", "none"], '--users: "none"; give a whole number'),
        (["simd", "--users"], '--users: ""; give a whole number'),
        (["simd", "--colour", "red"], "--colour: no option; there are"),
        (["simd", "--out", "/nowhere/at/all"], "/nowhere/at/all: No such file"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(words: list[str], said: str):
    module = "wharfinger.catalog.programs.filtering"
    call = [sys.executable, "-m", module, *words]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"wharfinger-filtering: {said}")
    assert done.stderr.count("\n") == 1


@pytest.mark.long
def test_the_experiment_at_a_small_scale():
    pytest.importorskip("matplotlib")
    assert EXPERIMENTS["ibench-figure58"].takes == {"scale"}
    small = partial(figure58.look, sources=["floating-point"], seconds=4.0)
    found = small(USERS / figure58.USERS, 0)
    for version in VERSIONS:
        assert found.numbers[f"{version}/run-time"] > 0
        assert found.numbers[f"{version}/steps-per-second"] > 0
        assert found.numbers[f"{version}/factors-differ"] < CLOSE
    assert found.numbers["change/memoised/footprint"] < 0
    assert sum(" to " in words for words in found.said) >= len(VERSIONS)
    for picture in EXPERIMENTS["ibench-figure58"].pictures:
        figure = picture.draw(found.drawn[picture.name], picture.title)
        # On a busy machine no source may have a signal.
        assert shows_data(figure) or picture.name == "profile"
