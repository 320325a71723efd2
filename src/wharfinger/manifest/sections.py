"""The schema engine: tables of fields, and reading a document by one.

A document's format is a ``Section``: its fields by name, each of a ``Kind``, and the dataclass that
they make, which says defaults and what is required. Manifests and scenarios are read by their
tables here; ``output`` writes by them. A wrong field does not stop the others from being read.
"""

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeAlias

from wharfinger.errors import InvalidInput
from wharfinger.manifest import tree
from wharfinger.manifest.kinds import Field, Kind, closest
from wharfinger.manifest.problems import Problems
from wharfinger.manifest.tree import Node, Scalar, Several, describe
from wharfinger.model.units import quoted

NOT_SUPPORTED = "not-supported"
"""The stable reason in the warning of a field that this version does not honor."""

Maker: TypeAlias = "Callable[..., object] | None"
"""Makes an object of a section's attributes."""

_WRONG = object()
_UNIT = re.compile("(_seconds|_per_second|_bytes|_millicpus)$")


@dataclass(frozen=True, slots=True, eq=False)
class Section:
    """One field that holds other fields.

    Attributes:
        fields: By name, in the order in which they are written.
        make: Makes its object from the attributes of its fields; an ``InvalidInput`` that it
            raises is a problem of the section. ``None`` = its fields are the object's around it.
        attribute: Where the object around it keeps its object; empty = as its name says.
        required: ``None`` = if the attribute has no default.
        many: Whether it is a list of such; then its attribute is a tuple of objects.
        short: What may stand in its place instead of a mapping; ``None`` = nothing.
        unstated: As of a ``Field``.
    """

    doc: str
    fields: "Mapping[str, Field | Section]"
    make: Maker = None
    attribute: str = ""
    required: bool | None = None
    many: bool = False
    short: Kind | None = None
    unstated: str = ""


def section(make: type, doc: str, **options: Any) -> Section:
    """The section of a dataclass whose annotations tell its fields; see ``Section``."""
    return Section(doc, fields_of(make), make, **options)


def fields_of(make: type) -> dict[str, Field | Section]:
    """The fields that a dataclass's annotations tell: ``Annotated[float, TIME("When.")]``."""
    return {
        getattr(part, "name", "") or _key(each.name): dataclasses.replace(part, attribute=each.name)
        for each in dataclasses.fields(make)
        for part in getattr(each.type, "__metadata__", ())
    }


def _key(attribute: str) -> str:
    """The name of the field that an attribute keeps: ``stop_grace_seconds`` keeps ``stopGrace``."""
    first, *rest = _UNIT.sub("", attribute).split("_")
    return first + "".join(map(str.title, rest))


@dataclass(frozen=True, slots=True)
class FieldRow:
    """A field of a section, joined with the dataclass that keeps it.

    Attributes:
        attribute: ``None`` = it is kept nowhere.
        default: Of the attribute; ``None`` = none, or one that can't be written.
        make: Of the object that its own fields belong to.
    """

    name: str
    part: Field | Section
    attribute: str | None
    required: bool
    default: object
    make: Maker


@cache
def rows(section: Section, make: Maker) -> tuple[FieldRow, ...]:
    """The fields of a section whose attributes ``make`` takes."""
    return tuple(_row(name, part, make) for name, part in section.fields.items())


def _row(name: str, part: Field | Section, make: Maker) -> FieldRow:
    own = part.make or make if isinstance(part, Section) else make
    if part.attribute is None or (isinstance(part, Section) and part.make is None):
        return FieldRow(name, part, None, bool(part.required), None, own)
    keeps: Any = dataclasses.fields(make) if isinstance(make, type) else ()
    wanted, missing = part.attribute or name, dataclasses.MISSING
    holder = next((each for each in keeps if wanted in (each.name, _key(each.name))), None)
    if holder is None:
        return FieldRow(name, part, wanted, bool(part.required), None, own)
    required = holder.default is missing and holder.default_factory is missing
    required = required if part.required is None else part.required
    default = None if holder.default is missing else holder.default
    return FieldRow(name, part, holder.name, required, default, own)


@dataclass(slots=True)
class Document:
    """What was read of one document, by a table.

    ``lines`` has the line of each field that is there, by path; ``values`` the value of each field
    and section that is right, and under ``""`` the attributes of the whole's object. ``warnings``
    are of what is accepted and probably not meant.
    """

    problems: Problems
    working_directory: str
    line: int
    table: Section
    lines: dict[str, int] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def wrong(self, path: str, message: str) -> None:
        """Add a problem of a field, in its line or that of the nearest section around it."""
        self.problems.add(self._line(path), path, message)

    def warn(self, path: str, message: str) -> None:
        """Add a warning of a field, as ``wrong``; a strict file has a problem instead."""
        if self.problems.strict:
            self.wrong(path, message)
        else:
            self.warnings.append(self.problems.text(self._line(path), path, message))

    def _line(self, path: str) -> int:
        while path and path not in self.lines:
            path = path.rpartition(".")[0]
        return self.lines.get(path, self.line)


def read_document(root: Node, table: Section, problems: Problems, directory: str) -> Document:
    """One document, read by a table; what is wrong with it goes to ``problems``."""
    document = Document(problems, directory, root.line, table)
    attributes = _read_section(document, table, table.make, root, "")
    if attributes is not None:
        document.values[""] = attributes
    return document


def _read_section(
    document: Document, section: Section, make: Maker, node: Node, path: str
) -> dict[str, object] | None:
    """The attributes that a section's fields make; ``None`` when one of them is wrong."""
    if not isinstance(node, tree.Mapping):
        document.wrong(path, _not_a_mapping(section, node))
        return None
    whole = _only_known(document, section, node, path)
    attributes: dict[str, object] = {}
    for row in rows(section, make):
        where = f"{path}.{row.name}" if path else row.name
        entry = node.entries.get(row.name)
        if entry is not None:
            document.lines[where] = entry.line
            made = _read_row(document, row, entry.node, where)
            whole = whole and made is not None
            attributes |= made or {}
        elif row.required:
            document.wrong(where, f"is missing; {_example(row)}")
            whole = False
    return attributes if whole else None


def _read_row(document: Document, row: FieldRow, node: Node, path: str) -> dict[str, object] | None:
    """As ``_read_section``, of one field or section."""
    part = row.part
    if isinstance(part, Field):
        value = _field(document, row, part, node, path)
    elif part.make is None:
        return _read_section(document, part, row.make, node, path)
    else:
        value = (_list if part.many else _object)(document, part, node, path)
    if value is _WRONG:
        return None
    document.values[path] = value
    return {} if row.attribute is None else {row.attribute: value}


def _field(document: Document, row: FieldRow, part: Field, node: Node, path: str) -> object:
    value = _value(document, part.kind, node, path)
    if part.not_supported and value not in (_WRONG, row.default):
        mend = "it has no effect, remove it"
        document.warn(path, f"{NOT_SUPPORTED}: this version {part.not_supported}; {mend}")
    return value


def _value(document: Document, kind: Kind, node: Node, path: str) -> object:
    try:
        return kind.read(node, document.working_directory)
    except Several as several:
        for line, inside, message in several.parts:
            document.problems.add(line, path + inside, message)
    except InvalidInput as error:
        document.wrong(path, str(error))
    return _WRONG


def _list(document: Document, section: Section, node: Node, path: str) -> object:
    if not isinstance(node, tree.Sequence):
        names = ", ".join(section.fields)
        document.wrong(path, f"is {describe(node)}, not a list; write - and a mapping of {names}")
        return _WRONG
    items = {f"{path}[{index}]": item for index, item in enumerate(node.items)}
    document.lines |= {where: item.line for where, item in items.items()}
    made = [_object(document, section, item, where) for where, item in items.items()]
    return _WRONG if _WRONG in made else tuple(made)


def _object(document: Document, section: Section, node: Node, path: str) -> object:
    """The object that a section makes, or what its short form says."""
    if section.short is not None and isinstance(node, Scalar) and node.value is not None:
        return _value(document, section.short, node, path)
    attributes = _read_section(document, section, section.make, node, path)
    if attributes is None or section.make is None:
        return _WRONG
    try:
        return section.make(**attributes)
    except InvalidInput as error:
        document.wrong(path, str(error))
        return _WRONG


def _not_a_mapping(section: Section, node: Node) -> str:
    names = ", ".join(section.fields)
    if isinstance(node, Scalar) and node.value is None:
        return f"is empty; write one of {names}, or remove the line"
    given = f"{quoted(node.text)} is " if isinstance(node, Scalar) else ""
    return f"{given}{describe(node)}, not a mapping; write a mapping of {names}"


def _only_known(document: Document, section: Section, node: tree.Mapping, path: str) -> bool:
    unknown = [name for name in node.entries if name not in section.fields]
    for name in unknown:
        # A file of nothing but unknown fields must not cost a search for each.
        message = "" if document.problems.full else _unknown(section, name, document.table)
        document.problems.add(node.entries[name].line, path, message)
    return not unknown


def _unknown(section: Section, name: str, table: Section) -> str:
    mend = f"the fields here are {', '.join(section.fields)}"
    near = closest(name, list(section.fields))
    elsewhere = next((path for path, other in _sections(table) if name in other.fields), None)
    if name == "<<":
        mend = "YAML 1.2 has no merge keys, write the fields out"
    elif near:
        mend = f"did you mean {near}?"
    elif elsewhere is not None:
        mend = f"it belongs to {elsewhere or 'the top of the document'}"
    return f"unknown field {quoted(name)}; {mend}"


def _sections(section: Section) -> Iterator[tuple[str, Section]]:
    waiting = [("", section)]
    for path, each in waiting:
        yield path, each
        inner = {name: part for name, part in each.fields.items() if isinstance(part, Section)}
        waiting += [(f"{path}.{name}" if path else name, part) for name, part in inner.items()]


def _example(row: FieldRow) -> str:
    if isinstance(row.part, Section):
        return f"write {row.name}: with {', '.join(row.part.fields)}"
    schema: Any = row.part.kind.schema
    first = schema["examples"][0]
    if isinstance(first, list):
        first = "[" + ", ".join(f'"{item}"' if " " in item else item for item in first) + "]"
    return f"write e.g. {row.name}: {first}"
