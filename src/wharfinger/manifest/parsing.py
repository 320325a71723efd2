"""From a document's tree to a workload, by the table of fields.

``load_manifests`` calls this with what ``reader`` gives; the rules between fields are in
``meaning``. A wrong field does not stop the others from being read. Documents of other kinds have
tables of their own and call ``read_section`` (``wharfinger.simulator.scenario.scenario_files``).
"""

from dataclasses import dataclass, field
from typing import cast

from wharfinger.errors import InvalidInput
from wharfinger.manifest.fields import MANIFEST, Field, Maker, Section
from wharfinger.manifest.kinds import WRONG, Kind, Place, closest
from wharfinger.manifest.problems import Problems
from wharfinger.manifest.tree import Mapping, Node, Scalar, Sequence, describe
from wharfinger.model.units import quoted
from wharfinger.model.workload import Workload


@dataclass(slots=True)
class Document:
    """What was read of one document.

    Attributes:
        problems: Takes what is wrong with it.
        working_directory: What relative paths start from.
        line: Where it begins.
        lines: The line of each field that is there, by path.
        values: The value of each field and section that is right, by path.
        workload: The whole, when all of it is right.
        table: What such a document may hold.
    """

    problems: Problems
    working_directory: str
    line: int = 0
    lines: dict[str, int] = field(default_factory=dict)
    values: dict[str, object] = field(default_factory=dict)
    workload: Workload | None = None
    table: Section = MANIFEST

    def line_of(self, path: str) -> int:
        """The line of a field, or of the nearest section around it that is there."""
        while path and path not in self.lines:
            path = path.rpartition(".")[0]
        return self.lines.get(path, self.line)


def parse_document(root: Node, problems: Problems, working_directory: str) -> Document:
    """Read one document; what is wrong with it goes to ``problems``."""
    document = Document(problems, working_directory, root.line)
    attributes = read_section(MANIFEST, root, "", document)
    if attributes is not None:
        document.workload = Workload(**attributes)  # type: ignore[arg-type]  # the table says so
    return document


def read_section(
    section: Section, node: Node, path: str, document: Document
) -> dict[str, object] | None:
    """The attributes that a section's fields give; ``None`` when one of them is wrong.

    Args:
        section: What may stand there.
        node: What does.
        path: Of the section; empty for the whole document.
        document: Takes lines, values and problems.
    """
    if not isinstance(node, Mapping):
        document.problems.add(document.line_of(path), path, _not_a_mapping(section, node))
        return None
    whole = _only_known(section, node, path, document)
    attributes: dict[str, object] = {}
    for part in section.fields:
        where = f"{path}.{part.name}" if path else part.name
        entry = node.entries.get(part.name)
        if entry is None:
            if part.required:
                line = document.line_of(where)
                document.problems.add(line, where, f"is missing; {_example(part)}")
                whole = False
            continue
        document.lines[where] = entry.line
        given = _part(part, entry.node, where, document)
        if given is None:
            whole = False
        else:
            attributes |= given
    return attributes if whole else None


def _part(
    part: Field | Section, node: Node, path: str, document: Document
) -> dict[str, object] | None:
    """The attributes that one field or section gives; ``None`` when it is wrong."""
    if isinstance(part, Field):
        value = _value(part.kind, node, path, document)
    elif part.attribute is None or part.make is None:
        return read_section(part, node, path, document)
    elif part.many:
        value = _list(part, node, path, document)
    else:
        value = _object(part, part.make, node, path, document)
    if value is WRONG:
        return None
    document.values[path] = value
    return {} if part.attribute is None else {part.attribute: value}


def _value(kind: Kind, node: Node, path: str, document: Document) -> object:
    place = Place(path, document.lines[path], document.problems, document.working_directory)
    try:
        return kind.read(node, place)
    except InvalidInput as error:
        return place.wrong(place.line, "", str(error))


def _list(section: Section, node: Node, path: str, document: Document) -> object:
    """The objects of a section that stands in a list."""
    if not isinstance(node, Sequence):
        known = ", ".join(_names(section))
        message = f"is {describe(node)}, not a list; write - and a mapping of {known}"
        document.problems.add(document.line_of(path), path, message)
        return WRONG
    made = []
    for index, item in enumerate(node.items):
        where = f"{path}[{index}]"
        document.lines[where] = item.line
        made.append(_object(section, section.make, item, where, document))
    return WRONG if WRONG in made else tuple(made)


def _object(section: Section, make: Maker, node: Node, path: str, document: Document) -> object:
    """The object that a section makes, or what its short form says."""
    if section.short is not None and isinstance(node, Scalar) and node.value is not None:
        return _value(section.short, node, path, document)
    attributes = read_section(section, node, path, document)
    if attributes is None or make is None:
        return WRONG
    try:
        return make(**attributes)
    except InvalidInput as error:
        document.problems.add(document.line_of(path), path, str(error))
        return WRONG


def _not_a_mapping(section: Section, node: Node) -> str:
    known = ", ".join(part.name for part in section.fields)
    if isinstance(node, Scalar) and node.value is None:
        return f"is empty; write one of {known}, or remove the line"
    shown = (
        f"{quoted(node.text)} is {describe(node)}" if isinstance(node, Scalar) else describe(node)
    )
    return f"{shown}, not a mapping; write a mapping of {known}"


def _only_known(section: Section, node: Mapping, path: str, document: Document) -> bool:
    """Whether all fields are known; each that is not is a problem."""
    known = _names(section)
    whole = True
    for name, entry in node.entries.items():
        if name in known:
            continue
        whole = False
        # A file of nothing but unknown fields must not cost a search for each.
        message = "" if document.problems.full else _unknown(section, name, document.table)
        document.problems.add(entry.line, path, message)
    return whole


def _unknown(section: Section, name: str, table: Section) -> str:
    """What to say of an unknown field."""
    start = f"unknown field {quoted(name)}"
    if name == "<<":
        return f"{start}; YAML 1.2 has no merge keys, write the fields out"
    known = _names(section)
    near = closest(name, list(known))
    if near:
        return f"{start}; did you mean {near}?"
    elsewhere = _places(table).get(name)
    if elsewhere:
        return f"{start}; it belongs to {elsewhere}"
    return f"{start}; the fields here are {', '.join(known)}"


def _names(section: Section) -> tuple[str, ...]:
    return tuple(part.name for part in section.fields)


def _places(table: Section) -> dict[str, str]:
    """Where each field belongs, by its name; the first where several sections have it."""
    places: dict[str, str] = {}
    waiting: list[tuple[str, Section]] = [("", table)]
    while waiting:
        path, section = waiting.pop(0)
        for part in section.fields:
            places.setdefault(part.name, path or "the top of the document")
            if isinstance(part, Section):
                waiting.append((f"{path}.{part.name}" if path else part.name, part))
    return places


def _example(part: Field | Section) -> str:
    """How to write a field that is missing."""
    if isinstance(part, Section):
        return f"write {part.name}: with {', '.join(_names(part))}"
    examples = part.kind.schema.get("examples", [part.kind.schema.get("const")])
    (first, *_) = cast("list[object]", examples)
    if isinstance(first, list):
        first = "[" + ", ".join(f'"{item}"' if " " in item else item for item in first) + "]"
    return f"write e.g. {part.name}: {first}"
