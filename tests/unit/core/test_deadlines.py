"""The first deadline is the one that a look at all of them would find."""

from hypothesis import given
from hypothesis import strategies as st

from wharfinger.core.deadlines import Deadlines

CHANGES = st.lists(
    st.tuples(st.sampled_from("abcd"), st.one_of(st.none(), st.integers(0, 5))), max_size=30
)


@given(CHANGES)
def test_the_first_is_the_earliest_that_holds(changes):
    deadlines, held = Deadlines(), {}
    for name, time in changes:
        if time is None:
            deadlines.drop(name)
            held.pop(name, None)
        else:
            deadlines.put(name, float(time))
            held[name] = float(time)
        earliest = min(((at, name) for name, at in held.items()), default=None)
        assert deadlines.first() == earliest
        assert {name for name in "abcd" if name in deadlines} == set(held)
