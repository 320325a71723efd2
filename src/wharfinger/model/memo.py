"""Results that are kept by the identity of a frozen value, which would be dear to compare.

A classification is asked about many times between two changes of it, and holds too much to hash.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

Result = TypeVar("Result")


def by_identity(
    maxsize: int,
) -> Callable[[Callable[..., Result]], Callable[..., Result]]:
    """Keep the last results of a pure function, by which object its first argument is.

    That argument and the result must be frozen; the others are compared, and so hashable.

    >>> @by_identity(maxsize=2)
    ... def longest(words: tuple[str, ...], least: int) -> str:
    ...     print("worked out")
    ...     return max((word for word in words if len(word) >= least), key=len)
    >>> words = ("to", "moor")
    >>> longest(words, 1), longest(words, 1)
    worked out
    ('moor', 'moor')
    """

    def keeping(function: Callable[..., Result]) -> Callable[..., Result]:
        # The object is kept too: no other has its identity meanwhile.
        kept: dict[tuple[Any, ...], tuple[object, Result]] = {}

        @wraps(function)
        def asked(first: object, *others: Any) -> Result:
            key = (id(first), *others)
            found = kept.get(key)
            if found is not None:
                return found[1]
            result = function(first, *others)
            if len(kept) >= maxsize:
                kept.pop(next(iter(kept)), None)
            kept[key] = first, result
            return result

        return asked

    return keeping
