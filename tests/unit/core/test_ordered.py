"""A sorted list whose head goes cheaply is a sorted list."""

from hypothesis import given
from hypothesis import strategies as st

from wharfinger.core.ordered import LEAST_REMOVED, Ordered

ENTRIES = st.tuples(st.integers(-2, 200), st.sampled_from("ab"))


@given(
    st.lists(ENTRIES, unique=True),
    st.lists(st.tuples(st.sampled_from("+-h"), ENTRIES), max_size=80),
)
def test_holds_what_a_sorted_list_holds(begun, changes):
    line, plain = Ordered(begun), sorted(begun)
    for what, drawn in changes:
        entry = plain[0] if what == "h" and plain else drawn
        assert (entry in line) == (entry in plain)
        if what == "+" and entry not in plain:
            line.add(entry)
            plain = sorted([*plain, entry])
        elif what != "+":
            assert line.remove(entry) == (entry in plain)
            plain = [each for each in plain if each != entry]
        assert list(line) == plain
        assert line.before(drawn) == sum(each < drawn for each in plain)


def test_the_head_may_go_until_nobody_is_left_and_others_come():
    count = 5 * LEAST_REMOVED
    line = Ordered((i, "") for i in range(count))
    for i in range(count):
        assert (len(line), line[0], line[-1]) == (count - i, (i, ""), (count - 1, ""))
        assert line.remove((i, ""))
        assert not line.remove((i, ""))
    assert list(line) == []
    line.add((7, ""))
    assert [line[0], line[-1]] == [(7, ""), (7, "")]
