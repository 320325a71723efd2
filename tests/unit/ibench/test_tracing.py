"""When a source counts as confined."""

from wharfinger.ibench.tracing import TRACED, Traced, hardware_here, judged


def test_a_source_is_confined_whose_level_sends_on_little():
    model = hardware_here()
    own = model.data[1]
    own.accesses, own.misses, own.cold = 1000, 150, 100
    told = judged(Traced("l2-cache", ("data", 1)), model, operations=500)
    assert (told.own, told.taken_per_sent_on, told.is_confined) == ("L2", 18.0, True)
    level = next(each for each in told.levels if each.name == "L2")
    assert (level.accesses, level.misses, level.first_misses) == (2.0, 0.3, 0.2)


def test_it_says_why_it_is_not():
    model = hardware_here()
    assert "0 accesses reached" in judged(Traced("l2-cache", ("data", 1)), model, 10).why_not
    model.data[1].accesses, model.data[1].misses = 100, 50
    told = judged(Traced("l2-cache", ("data", 1)), model, 10)
    assert (told.is_confined, told.why_not) == (False, "its level sends on one access in 2.0")


def test_what_works_in_registers_misses_nothing():
    model = hardware_here()
    assert judged(Traced("integer"), model, 100).is_confined
    model.data[0].misses = 50
    assert "0.500 times an operation" in judged(Traced("integer"), model, 100).why_not


def test_each_is_traced_once():
    names = [each.name for each in TRACED]
    assert len(names) == len(set(names))
