"""Configurations and settings: the columns that classification works on (Quasar 3.2).

A *configuration* is what a workload gets of one server (cores, memory, storage) and the parameters
of its framework; a *setting* is that on a number of servers of one platform.
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Self

from wharfinger.errors import InvalidInput
from wharfinger.model.platform import MILLICPUS_PER_CPU
from wharfinger.model.units import format_bytes, parse_bytes, parse_cpu_millicpus

GIBIBYTE = 1024**3
_OWN = ("cpu", "memory", "storage")
_MARKS = frozenset("=,|")


@dataclass(frozen=True, slots=True)
class Configuration:
    """What a workload gets of one server, and how its framework is set.

    Attributes:
        memory_bytes: ``None`` = all of it; so with ``storage_bytes``.
        parameters: Of the framework, sorted by name, e.g. ``(("heap", "1Gi"), ("mappers", "8"))``.

    Raises:
        InvalidInput: A number is not above zero, or a name can't be part of a column's name.

    >>> Configuration(2000, 4 * GIBIBYTE, parameters=(("mappers", "8"), ("heap", "1Gi"))).name
    'cpu=2000m,memory=4Gi,heap=1Gi,mappers=8'
    >>> Configuration.parse("cpu=2,memory=4Gi") == Configuration(2000, 4 * GIBIBYTE)
    True
    """

    cpu_millicpus: int
    memory_bytes: int | None = None
    storage_bytes: int | None = None
    parameters: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        amounts = (self.cpu_millicpus, self.memory_bytes, self.storage_bytes)
        for field, amount in zip(_OWN, amounts, strict=True):
            if amount is not None and amount <= 0:
                raise InvalidInput(f"{field}={amount}: a configuration has more than none of it")
        if not self.parameters:
            return
        names = [name for name, _ in self.parameters]
        for word in (text for pair in self.parameters for text in pair):
            if not word or _MARKS & set(word):
                raise InvalidInput(f"parameter {word!r}: give it characters, but none of = , |")
        if len(set(names)) < len(names) or set(names) & set(_OWN):
            raise InvalidInput(f"parameters {', '.join(names)}: each once, and none of {_OWN}")
        object.__setattr__(self, "parameters", tuple(sorted(self.parameters)))

    @property
    def name(self) -> str:
        """As columns are named."""
        return _name_of(self)

    @classmethod
    def parse(cls, text: str) -> Self:
        """The configuration of that name.

        Raises:
            InvalidInput: The text is not such a name.
        """
        pairs = [part.partition("=") for part in text.split(",")]
        given = {name: value for name, mark, value in pairs if mark}
        if "cpu" not in given or len(given) < len(pairs):
            raise InvalidInput(
                f"configuration {text!r}: write it as cpu=2000m,memory=4Gi,storage=100Gi,NAME=VALUE"
            )
        memory, storage = (
            parse_bytes(given[name]) if name in given else None for name in ("memory", "storage")
        )
        parameters = tuple((name, value) for name, value in given.items() if name not in _OWN)
        return cls(parse_cpu_millicpus(given["cpu"]), memory, storage, parameters)

    def with_cpu(self, cpu_millicpus: int) -> "Configuration":
        """The same with another amount of CPU."""
        return replace(self, cpu_millicpus=cpu_millicpus)


@lru_cache(maxsize=4096)
def _name_of(one: Configuration) -> str:
    amounts = (("memory", one.memory_bytes), ("storage", one.storage_bytes))
    limits = [(what, format_bytes(amount)) for what, amount in amounts if amount is not None]
    pairs = [("cpu", f"{one.cpu_millicpus}m"), *limits, *one.parameters]
    return ",".join(f"{name}={value}" for name, value in pairs)


@dataclass(frozen=True, slots=True)
class Blocks:
    """The multiples to which configurations are rounded, so that a matrix has few columns.

    Source: Quasar 3.2: "integer multiples of cores and blocks of memory and storage".
    """

    cpu_millicpus: int = MILLICPUS_PER_CPU
    memory_bytes: int = GIBIBYTE
    storage_bytes: int = 10 * GIBIBYTE

    def quantised(self, given: Configuration) -> Configuration:
        """The nearest multiple, at least one.

        >>> Blocks().quantised(Configuration(2600, 3 << 28)).name
        'cpu=3000m,memory=1Gi'
        """
        return replace(
            given,
            cpu_millicpus=_nearest(given.cpu_millicpus, self.cpu_millicpus),
            memory_bytes=_or_none(given.memory_bytes, self.memory_bytes),
            storage_bytes=_or_none(given.storage_bytes, self.storage_bytes),
        )


def _nearest(amount: int, block: int) -> int:
    return max(1, (2 * amount + block) // (2 * block)) * block


def _or_none(amount: int | None, block: int) -> int | None:
    return None if amount is None else _nearest(amount, block)


@dataclass(frozen=True, slots=True)
class Setting:
    """One allocation and assignment: a configuration on each of some servers of one platform.

    Raises:
        InvalidInput: ``servers`` is less than one.
    """

    platform: str
    configuration: Configuration
    servers: int = 1

    def __post_init__(self) -> None:
        if self.servers < 1:
            raise InvalidInput(f"{self.servers} servers: a setting has one at least")
