"""A run that this machine can't hold is refused before it takes any memory."""

import pytest

from wharfinger.errors import InvalidInput
from wharfinger.simulator.run import RunSpec, prepare
from wharfinger.simulator.scenario.room import check_room, read_available_bytes


def test_what_fits_is_let_through():
    check_room(1000, 100, 2**30)
    assert (read_available_bytes() or 2**30) > 2**20


@pytest.mark.parametrize(
    ("workloads", "servers", "words"),
    [
        (10**9, 20, "--workloads: 1000000000 workloads on 20 servers take at least 3,81"),
        (20, 10**9, "--servers: 20 workloads on 1000000000 servers take at least 1,43"),
    ],
)
def test_what_does_not_fit_is_refused_with_what_does(workloads: int, servers: int, words: str):
    with pytest.raises(InvalidInput, match=r"at most [1-9][0-9]0+ fit") as caught:
        check_room(workloads, servers, 2**30)
    assert str(caught.value).startswith(words)
    most = int(str(caught.value).split("at most ")[1].split()[0])
    check_room(*((most, servers) if servers == 20 else (workloads, most)), 2**30)


def test_a_scenario_is_refused_before_it_is_drawn():
    with pytest.raises(InvalidInput, match="--workloads: 1000000000"):
        prepare(RunSpec("synthetic", workloads=10**9))
    with pytest.raises(InvalidInput, match="--servers: "):
        prepare(RunSpec("synthetic", servers=10**9))
