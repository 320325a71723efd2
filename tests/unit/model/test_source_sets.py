"""The sets of sources are the papers'."""

from wharfinger.model.interference import SharedResource
from wharfinger.model.source_sets import IBENCH, PARAGON


def test_paragon_has_ten_of_which_the_core_is_three_and_no_second_level():
    assert len(set(PARAGON)) == 12
    assert SharedResource.L2_CACHE not in PARAGON


def test_ibench_has_all():
    assert set(IBENCH) == set(SharedResource)
