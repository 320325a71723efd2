"""The sets of sources are the papers'."""

import pytest

from wharfinger.errors import InvalidInput
from wharfinger.model.interference import SharedResource
from wharfinger.model.source_sets import IBENCH, PARAGON, set_named, worst_caused


def test_paragon_has_one_core_and_no_second_level():
    assert len(PARAGON) == 10
    assert {s.value for s in PARAGON["core"]} == {"integer", "floating-point", "vector"}
    assert SharedResource.L2_CACHE.value not in PARAGON


def test_ibench_has_all():
    assert {source for group in IBENCH.values() for source in group} == set(SharedResource)


def test_the_worst_of_a_group_counts():
    scores = {SharedResource.INTEGER: 10.0, SharedResource.FLOATING_POINT: 25.0}
    assert worst_caused(PARAGON, scores) == {"core": 25.0}


def test_an_unknown_set_is_told_the_known_ones():
    with pytest.raises(InvalidInput, match="'arq'; name one of: paragon, ibench"):
        set_named("arq")
