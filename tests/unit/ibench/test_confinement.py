"""The model of caches: what fits is held, what does not is not, and pages may be one."""

from wharfinger.ibench.confinement import CacheLevel, CacheModel, replay


def hardware() -> CacheModel:
    behind = CacheLevel(4096, 4)
    return CacheModel(
        [CacheLevel(256, 4), behind], [CacheLevel(256, 4), behind], [CacheLevel(4 * 4096, 4, 4096)]
    )


def loads(addresses: range) -> list[str]:
    return [f" L {address:x},8\n" for address in addresses]


def test_what_fits_is_missed_once():
    model = hardware()
    replay(loads(range(0, 256, 64)) * 10, model)
    assert (model.data[0].accesses, model.data[0].misses) == (40, 4)
    assert model.data[1].accesses == 4


def test_what_does_not_fit_goes_to_the_level_behind():
    model = hardware()
    replay(loads(range(0, 2048, 64)), model)
    model.forget_counts()
    replay(loads(range(0, 2048, 64)) * 10, model)
    assert model.data[0].misses == model.data[1].accesses == 320
    assert model.data[1].misses == 0


def test_pages_that_are_one_take_the_cache_once_and_a_translation_each():
    model, pages = hardware(), range(8 * 4096)
    replay(loads(range(0, 8 * 4096, 4096)) * 10, model, same_page=pages)
    assert model.data[0].misses == 1
    assert model.translations[0].misses == 80


def test_instructions_have_a_first_level_of_their_own():
    model = hardware()
    replay(["I  400000,4\n", " L 400000,8\n", "==1== words\n"], model)
    assert [model.instructions[0].misses, model.data[0].misses] == [1, 1]
    # The second level is both's, and had the line by then.
    assert (model.data[1].accesses, model.data[1].misses) == (2, 1)
