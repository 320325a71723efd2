"""What is kept by identity."""

from wharfinger.model.memo import by_identity


def test_it_is_worked_out_once_for_an_object_and_its_arguments():
    asked = []

    @by_identity(maxsize=2)
    def total(numbers: list[int], more: int) -> int:
        asked.append(more)
        return sum(numbers) + more

    one, equal = [1, 2], [1, 2]
    assert [total(one, 1), total(one, 1), total(one, 2), total(equal, 1)] == [4, 4, 5, 4]
    assert asked == [1, 2, 1], "an equal object is another"
    assert total(one, 1) == 4
    assert asked == [1, 2, 1, 1], "only the last two are kept"
