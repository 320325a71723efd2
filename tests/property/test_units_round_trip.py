"""Formatting a quantity and reading it again gives the very same number."""

from hypothesis import assume, example, given
from hypothesis import strategies as st

from wharfinger.model import units


@given(st.integers(1, units.MAX_DURATION_SECONDS * 10**9))
@example(1)
@example(units.MAX_DURATION_SECONDS * 10**9)
def test_durations(nanoseconds):
    seconds = nanoseconds / 10**9
    assume(seconds <= units.MAX_DURATION_SECONDS)
    assert units.parse_duration_seconds(units.format_duration(seconds)) == seconds


@given(st.floats(0, units.MAX_RATE_PER_SECOND, exclude_min=True))
@example(5e-324)
@example(1e18)
def test_rates(rate):
    assert units.parse_rate_per_second(units.format_rate(rate)) == rate


@given(st.integers(1, units.MAX_BYTES))
def test_bytes(size):
    assert units.parse_bytes(units.format_bytes(size)) == size


@given(st.floats(0, 1))
@example(5e-324)
def test_fractions(fraction):
    assert units.parse_fraction(units.format_fraction(fraction)) == fraction


@given(st.integers(1, units.MAX_CPU_MILLICPUS))
def test_cpus(cpu):
    assert units.parse_cpu_millicpus(units.format_cpu(cpu)) == cpu
