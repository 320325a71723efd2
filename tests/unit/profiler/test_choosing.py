"""Sources by name and by set."""

import pytest

from wharfinger.errors import InvalidInput
from wharfinger.ibench.sources import SOURCES
from wharfinger.profiler.choosing import FEATURES, SETS, choose


def test_a_set_has_what_there_is_and_names_the_rest():
    choice = choose("paragon")
    assert {source.name for source in choice.sources} | set(choice.absent) == set(SETS["paragon"])


def test_all_is_each_source_once():
    assert choose("all,integer").sources == SOURCES


def test_an_unknown_name_is_answered_with_all_names():
    with pytest.raises(
        InvalidInput, match=r"'core' is neither .* integer, .* paragon, ibench, all"
    ):
        choose("core")


def test_every_source_is_a_feature_of_a_machine():
    assert set(SETS["ibench"]) | {source.name for source in SOURCES} <= FEATURES.keys()
