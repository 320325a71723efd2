"""The names in a file: each is taken once, and none waits for itself."""

import string

from wharfinger.manifest.arrays import MAX_MEMBERS, ArrayRange, member_name
from wharfinger.manifest.kinds import MAX_NAME, RANDOM_CHARACTERS
from wharfinger.manifest.sections import Document
from wharfinger.model.units import quoted
from wharfinger.model.workload import After, ArrayMember

_NAME, _GENERATE, _ARRAY = "metadata.name", "metadata.generateName", "spec.array"
_RANDOM = string.ascii_lowercase + string.digits
_SHOWN = 5  # names of a cycle that a message tells


class FileNames:
    """Which names the documents of a file take, and which of them wait for which."""

    def __init__(self) -> None:
        self._lines: dict[str, int] = {}  # an array's name, too, if one document makes it
        self._shared: dict[str, int] = {}  # arrays whose members have a document each
        self._members = 0
        self._waits_for: dict[str, set[str]] = {}
        self._array_of: dict[str, str] = {}
        self._documents: dict[str, Document] = {}

    def take(self, document: Document) -> str | None:
        """The name of a document's workload or array; ``None`` = it has none that is right."""
        name: str | None = document.values.get(_NAME)
        beginning = document.values.get(_GENERATE)
        if name is None and beginning is not None:
            name = self._made_of(beginning)
        if name is None:
            return None
        array = document.values.get(_ARRAY)
        names = [name]
        if isinstance(array, ArrayRange):
            members = [member_name(name, index) for index in array.indexes]
            self._check_members(document, members)
            self._array_of |= dict.fromkeys(members, name)
            names += members
        self._claim(document, names, array)
        self._remember_dependencies(document, name, array)
        return name

    def check_dependencies(self) -> None:
        """A cycle of workloads that wait for each other is a problem of one of them."""
        from graphlib import CycleError, TopologicalSorter  # noqa: PLC0415 - few have any

        graph = {
            name: {self._array_of.get(other, other) for other in others}
            for name, others in self._waits_for.items()
        }
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            cycle = [*reversed(error.args[1])]
            document = next(self._documents[name] for name in cycle if name in self._documents)
            shown = " waits for ".join(cycle[:_SHOWN]) + (" …" if len(cycle) > _SHOWN else "")
            document.wrong("spec.after", f"{shown}: none of them would ever start; remove one")

    def _made_of(self, beginning: str) -> str:
        import secrets  # noqa: PLC0415 - few need it

        while True:
            name = beginning + "".join(secrets.choice(_RANDOM) for _ in range(RANDOM_CHARACTERS))
            if name not in self._lines and name not in self._shared:
                return name

    def _check_members(self, document: Document, names: list[str]) -> None:
        before = self._members
        self._members += len(names)
        if before <= MAX_MEMBERS < self._members:
            message = f"the file's arrays have more than {MAX_MEMBERS} members; write several files"
            document.wrong(_ARRAY, message)
        longest = max(names, key=len)
        if len(longest) > MAX_NAME:
            wrong = f"its member {longest} has a name of {len(longest)} characters"
            document.wrong(_place(document), f"{wrong}; at most {MAX_NAME}, shorten it")

    def _claim(self, document: Document, names: list[str], array: object) -> None:
        place = _place(document)
        line = document.lines[place]
        own = array.name if isinstance(array, ArrayMember) else ""
        taken = {each: self._lines.setdefault(each, line) for each in names}
        taken |= {each: self._shared[each] for each in names if each in self._shared}
        if own:
            taken[own] = self._lines.get(own, line)
            self._shared.setdefault(own, line)
        for each, first in taken.items():
            if first != line:
                where = f"{quoted(each)} is also the name in line {first}"
                document.wrong(place, f"{where}; give one of the two another name")
                return

    def _remember_dependencies(self, document: Document, name: str, array: object) -> None:
        after = document.values.get("spec.after")
        self._documents.setdefault(name, document)
        waits_for = self._waits_for.setdefault(name, set())
        if isinstance(after, After):
            waits_for |= {*after.completed, *after.ended, *after.ready}
        if isinstance(array, ArrayMember):
            self._waits_for.setdefault(array.name, set()).add(name)


def _place(document: Document) -> str:
    return _NAME if _NAME in document.values else _GENERATE
