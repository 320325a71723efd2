"""What tests share: waiting for a state, and what a test needs of the machine."""

import time
from collections.abc import Callable, Iterable
from typing import TypeVar

import pytest

T = TypeVar("T")

requires_root = pytest.mark.root
"""Skipped, with the reason, where the tests don't run as root (tests/conftest.py)."""

POLL_SECONDS = 0.01


def slow(values: Iterable[object]) -> list[object]:
    """Values of a parametrised test that are not for scripts/test --fast."""
    return [pytest.param(value, marks=pytest.mark.slow) for value in values]


def first_and_long(values: Iterable[object]) -> list[object]:
    """Values of a parametrised test of which all but the first are for scripts/test --long.

    A tuple is one of several values.
    """
    first, *others = values
    several = (value if isinstance(value, tuple) else (value,) for value in others)
    return [first, *(pytest.param(*each, marks=pytest.mark.long) for each in several)]


def wait_until(predicate: Callable[[], T], timeout_seconds: float = 60.0, what: str = "") -> T:
    """Calls ``predicate`` until it returns something true, and returns that.

    Fails the test when the time is up; ``what`` says in words what was waited for.
    """
    deadline = time.monotonic() + timeout_seconds
    while not (value := predicate()):
        if time.monotonic() >= deadline:
            awaited = what or getattr(predicate, "__qualname__", repr(predicate))
            pytest.fail(f"not within {timeout_seconds:g} s: {awaited} (last answer: {value!r})")
        time.sleep(POLL_SECONDS)
    return value
