"""The servers' labels as columns, and the servers that meet a requirement of them.

``ServerTable`` keeps both up to date row by row. What a requirement allows is worked out once, not
for every workload that has it: as a mask, and as an index by load of its own, so that a question
about the allowed servers is no pass over all of them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wharfinger.model.arrays import frozen
from wharfinger.model.requirements import Requirement, Requires, are_met
from wharfinger.model.view import View
from wharfinger.native import LoadIndex

KEPT = 32
"""Distinct requirements for which masks are kept; of more, those that were asked for last."""


class AllowedServers:
    """The servers that meet one requirement.

    Attributes:
        columns: ``allowed``, (at least S,) 1 where it holds; ``accepting``, where new work may be
            placed, too.
        loads: By load, those of ``accepting`` alone.
    """

    def __init__(
        self, requires: Requires, allowed: NDArray[np.bool_], accepting: NDArray[np.uint8]
    ) -> None:
        self.requires = requires
        mask = allowed.astype(np.uint8)
        self.columns = {"allowed": mask, "accepting": mask * accepting}
        self.loads = LoadIndex()
        self._view: View | None = None
        self._of: View | None = None

    def put(self, row: int, labels: Mapping[str, str], *, accepting: bool) -> None:
        """A server joins or leaves, or its labels or whether it accepts work have changed."""
        allowed = are_met(self.requires, labels)
        self.columns["allowed"][row] = allowed
        self.columns["accepting"][row] = allowed and accepting

    def view(self, view: View) -> View:
        """The view in which no other server accepts work."""
        if self._view is None or self._of is not view:
            accepting = frozen(self.columns["accepting"][: len(view.names)])
            narrowed = replace(view, accepting=accepting, index=None, largest=None)
            self._view, self._of = replace(narrowed, loads=self.loads), view
        return self._view


class ServerLabels:
    """The labels of all servers, a column each, and what the requirements allow that are kept."""

    def __init__(self) -> None:
        self._columns: dict[str, NDArray[np.int64]] = {}
        self._numbers: dict[str, dict[str, int]] = {}
        self._kept: dict[Requires, AllowedServers] = {}

    def columns(self) -> Iterator[dict[str, NDArray[Any]]]:
        """All columns, which the table lengthens and whose rows it moves."""
        yield self._columns
        for allowed in self._kept.values():
            yield allowed.columns

    def kept(self) -> Iterator[AllowedServers]:
        """What each requirement allows."""
        return iter(self._kept.values())

    def put(self, row: int, labels: Mapping[str, str], room: int, *, accepting: bool) -> None:
        """Set the labels of a row; columns are ``room`` long."""
        for label in labels.keys() - self._columns.keys():
            self._columns[label] = np.zeros(room, dtype=np.int64)
        for label, column in self._columns.items():
            column[row] = self._number(label, labels[label]) if label in labels else 0
        for allowed in self._kept.values():
            allowed.put(row, labels, accepting=accepting)

    def close(self, row: int) -> None:
        """A server has left; its row goes when it is empty."""
        for column in self._columns.values():
            column[row] = 0
        for allowed in self._kept.values():
            allowed.put(row, {}, accepting=False)

    def touch(self, row: int) -> None:
        """Something about a server changes that the indices by load are to read again."""
        for allowed in self._kept.values():
            allowed.loads.touch(row)

    def find(self, requires: Requires) -> AllowedServers | None:
        """What a requirement allows, if that is kept."""
        found = self._kept.pop(requires, None)
        if found is not None:
            self._kept[requires] = found
        return found

    def add(self, requires: Requires, accepting: NDArray[np.uint8]) -> AllowedServers:
        """What a requirement allows, kept from now on; its index by load is not bound yet."""
        if len(self._kept) >= KEPT:
            del self._kept[next(iter(self._kept))]
        met = np.ones(len(accepting), dtype=np.bool_)
        for requirement in requires:
            met &= self._holds(requirement, len(accepting))
        found = self._kept[requires] = AllowedServers(requires, met, accepting)
        return found

    def values(self, label: str) -> dict[str, int]:
        """How many servers have each value of a label, the most frequent first."""
        if (column := self._columns.get(label)) is None:
            return {}
        numbers = self._numbers[label]
        having = np.bincount(column, minlength=len(numbers) + 1)
        found = {value: int(having[number]) for value, number in numbers.items()}
        return {v: n for v, n in sorted(found.items(), key=lambda each: (-each[1], each[0])) if n}

    def _number(self, label: str, value: str) -> int:
        """Of a value of a label; 0 = a server does not have the label."""
        numbers = self._numbers.setdefault(label, {})
        return numbers.setdefault(value, len(numbers) + 1)

    def _holds(self, requirement: Requirement, rows: int) -> NDArray[np.bool_]:
        has, column = np.zeros(rows, dtype=np.bool_), self._columns.get(requirement.label)
        if column is not None:
            numbers = self._numbers[requirement.label]
            for value in requirement.values:
                has |= column == numbers.get(value, -1)
        return np.asarray(has != requirement.excluded)
