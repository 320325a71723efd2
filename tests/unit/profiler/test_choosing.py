"""Sources by name and by set."""

import pytest

from wharfinger.errors import InvalidInput
from wharfinger.ibench.sources import SOURCES
from wharfinger.model.source_sets import SETS
from wharfinger.profiler.choosing import FEATURES, choose


def names_of(name: str) -> set[str]:
    return {resource.value for resource in SETS[name]}


@pytest.mark.parametrize("name", SETS)
def test_a_set_is_all_that_its_study_tells_apart(name: str):
    assert {source.name for source in choose(name)} == names_of(name)


def test_all_is_each_source_once():
    assert choose("all,integer") == SOURCES


def test_an_unknown_name_is_answered_with_all_names():
    with pytest.raises(
        InvalidInput, match=r"'core' is neither .* integer, .* paragon, ibench, all"
    ):
        choose("core")


def test_every_source_is_a_feature_of_a_machine():
    assert names_of("ibench") | {source.name for source in SOURCES} <= FEATURES.keys()
