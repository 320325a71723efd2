"""Sources by name and by set."""

import pytest

from wharfinger.errors import InvalidInput
from wharfinger.ibench.sources import SOURCES
from wharfinger.model.source_sets import SETS
from wharfinger.profiler.choosing import FEATURES, choose


def names_of(name: str) -> set[str]:
    return {source.value for group in SETS[name].values() for source in group}


def test_a_set_has_what_there_is_and_names_the_rest():
    choice = choose("paragon")
    assert {source.name for source in choice.sources} | set(choice.absent) == names_of("paragon")


def test_all_is_each_source_once():
    assert choose("all,integer").sources == SOURCES


def test_an_unknown_name_is_answered_with_all_names():
    with pytest.raises(
        InvalidInput, match=r"'core' is neither .* integer, .* paragon, ibench, all"
    ):
        choose("core")


def test_every_source_is_a_feature_of_a_machine():
    assert names_of("ibench") | {source.name for source in SOURCES} <= FEATURES.keys()
