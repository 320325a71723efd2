"""From the bytes of a manifest file to trees of values, within limits checked on the way.

PyYAML gives the events, by its C parser where that was built and its Python one elsewhere. A limit
is checked before the thing that it bounds is built, and no function here calls itself, so that
neither brackets nor aliases can take more memory or stack than the limits say. ``sections`` then
reads the fields.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wharfinger.manifest.problems import Problems
from wharfinger.manifest.tree import (
    CORE_TAGS,
    PREFIX,
    Mapping,
    Node,
    Scalar,
    ScalarValue,
    Sequence,
    TreeEntry,
    describe,
    resolve,
    resolve_tagged,
)
from wharfinger.model.units import format_bytes, quoted

if TYPE_CHECKING:
    import yaml


@dataclass(frozen=True, slots=True)
class DocumentLimits:
    """How much one manifest file may hold; depth and nodes count aliases written out.

    Attributes:
        max_tag_directives: Uses of ``%TAG``, each of which libyaml compares with all others.
    """

    max_bytes: int = 4 * 1024**2
    max_depth: int = 32
    max_nodes: int = 200_000
    max_aliases: int = 100
    max_scalar_chars: int = 64 * 1024
    max_tag_directives: int = 100


DEFAULT_LIMITS = DocumentLimits()

_NOT_TEXT = re.compile(
    "[^\t\n\r\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"
)
_SURROGATE = re.compile("[\ud800-\udfff]")
_LINE_BREAK = re.compile("\r\n|\r|\n")

# JSON alone, in which each backslash is an escape; possessive, so that it never backtracks.
_JSON = re.compile(r'(?:"(?:[^"\\]|\\.)*+"|[-+.,:\[\]{}0-9eE\s]|true|false|null)*+', re.DOTALL)
_ESCAPE = re.compile(
    r"\\(?:u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})|.)", re.DOTALL
)

_MENDS = (
    ("begins with !", "put it in quotes if it is text"),
    ("\\t", "indent with spaces, not tabs"),
    ("mapping values are not allowed", "a value with ': ' in it needs quotes"),
    ("<block end>", "check the indentation"),
    ("did not find expected key", "check the indentation and the quotes"),
    ("unexpected end of stream", "close the quote"),
    ("undefined alias", "define the anchor first, or quote a value that begins with *"),
    (
        "cannot start any token",
        "indent with spaces, not tabs; quote a value that begins with @ or %",
    ),
    ("escape", "use single quotes where a backslash is meant"),
    ("','", "close the bracket or the brace"),
)


class _Stop(Exception):
    """The rest of the file can't be read; its arguments are line and message."""


def read_documents(
    text: bytes | str,
    problems: Problems,
    limits: DocumentLimits = DEFAULT_LIMITS,
    *,
    pure: bool = False,
) -> Iterator[Node]:
    """The documents of a file, also those with problems in them; empty ones are left out.

    Args:
        text: UTF-8, with or without a byte order mark.
        problems: Takes what is wrong. After an error of form the rest is not read.
        limits: Of the file.
        pure: Use PyYAML's Python parser though the C one is there.
    """
    try:
        events = _events(_decoded(text, limits), limits, pure=pure)
        yield from _Composer(problems, limits).documents(events)
    except _Stop as stop:
        line, message = stop.args
        problems.add(line, "", message)


def _decoded(text: bytes | str, limits: DocumentLimits) -> str:
    data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    if len(data) > limits.max_bytes:
        allowed = format_bytes(limits.max_bytes)
        raise _Stop(0, f"{len(data)} bytes are too many for a manifest; split it below {allowed}")
    try:
        decoded = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        odd_byte = f"byte 0x{data[error.start]:02x}"
        raise _Stop(line, f"{odd_byte} is not UTF-8; save the file as UTF-8") from error
    odd = _NOT_TEXT.search(decoded)
    if odd:
        line = len(_LINE_BREAK.findall(decoded, 0, odd.start())) + 1
        mend = 'write it as an escape in double quotes, e.g. "\\u2028"'
        raise _Stop(line, f"character U+{ord(odd[0]):04X} may not stand in a manifest; {mend}")
    if decoded.count("%TAG") > limits.max_tag_directives:
        raise _Stop(0, f"more than {limits.max_tag_directives} %TAG directives; remove them")
    return _with_whole_characters(decoded)


def _with_whole_characters(text: str) -> str:
    """JSON with characters beyond U+FFFF in one escape, as YAML has them; other text as it is."""
    if "\\ud" not in text and "\\uD" not in text:
        return text
    return _ESCAPE.sub(_whole_character, text) if _JSON.fullmatch(text) else text


def _whole_character(escape: re.Match[str]) -> str:
    if escape[1] is None:
        return escape[0]
    high, low = int(escape[1], 16) - 0xD800, int(escape[2], 16) - 0xDC00
    return f"\\U{0x10000 + (high << 10) + low:08x}"


def _events(text: str, limits: DocumentLimits, *, pure: bool) -> "Iterator[yaml.Event]":
    import yaml  # noqa: PLC0415 - 10 ms that only those who read a manifest should pay

    parser: Any = yaml.CBaseLoader(text) if yaml.__with_libyaml__ and not pure else _pure(text)
    try:
        while True:
            event = parser.get_event()
            yield event
            if type(event) is yaml.StreamEndEvent:
                return
    except yaml.MarkedYAMLError as error:
        mark, problem = error.problem_mark or error.context_mark, error.problem or error.context
        # Newer versions of libyaml have a limit of their own, which they reach while looking ahead.
        too_deep = "nesting depth" in (problem or "")
        if "tag" in (error.context or ""):
            problem = f"a word that begins with ! is a tag, and this one {problem}"
        message = _too_deep(limits) if too_deep else _syntax_message(problem or "")
        raise _Stop(mark.line + 1 if mark else 0, message) from error
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        # The Python parser lets through what chr() and int() say of monstrous escapes.
        raise _Stop(0, _syntax_message(str(error))) from error
    finally:
        parser.dispose()


def _pure(text: str) -> Any:
    """PyYAML's Python parser, taught that tabs may separate tokens as libyaml knows."""
    import yaml  # noqa: PLC0415 - see _events

    class Parser(yaml.BaseLoader):
        def scan_to_next_token(self) -> None:
            while True:
                super().scan_to_next_token()
                if self.peek() != "\t" or not (self.flow_level or not self.allow_simple_key):
                    return
                while self.peek() in " \t":
                    self.forward()

    return Parser(text)


def _too_deep(limits: DocumentLimits) -> str:
    return f"nested more than {limits.max_depth} deep; a manifest needs about 5"


def _syntax_message(problem: str) -> str:
    mend = next((mend for part, mend in _MENDS if part in problem), "check quotes and indentation")
    return f"this is not YAML: {problem[:200] or 'it ends early'}; {mend}"


@dataclass(slots=True)
class _Open:
    """A list or mapping whose end has not come.

    Attributes:
        key: In a mapping, the key whose value comes next; ``None`` = a wrong one, whose value will
            be dropped.
        key_line: Where that key stands; 0 = a key comes next.
    """

    node: Sequence | Mapping
    key: str | None = None
    key_line: int = 0


class _Composer:
    """Builds trees from events; the stack is a list, so depth is a number we choose."""

    def __init__(self, problems: Problems, limits: DocumentLimits) -> None:
        self._problems = problems
        self._limits = limits
        self._nodes = 0
        self._aliases = 0
        self._anchors: dict[str, Node] = {}
        self._open: list[_Open] = []
        self._root: Node | None = None

    def documents(self, events: "Iterator[yaml.Event]") -> Iterator[Node]:
        handlers = {
            "ScalarEvent": self._scalar,
            "AliasEvent": self._alias,
            "MappingStartEvent": self._start,
            "SequenceStartEvent": self._start,
            "MappingEndEvent": self._end,
            "SequenceEndEvent": self._end,
            "DocumentStartEvent": self._document,
        }
        for event in events:
            name = type(event).__name__
            if name == "DocumentEndEvent":
                root = self._root
                if root is not None and not (isinstance(root, Scalar) and root.value is None):
                    yield root
            elif name in handlers:  # the two ends of the stream say nothing
                handlers[name](event)

    def _document(self, event: Any) -> None:
        self._anchors.clear()
        self._root = None
        if event.version not in (None, (1, 2)):
            major, minor = event.version
            line = event.start_mark.line + 1
            raise _Stop(
                line, f"%YAML {major}.{minor} is not supported; remove the line: it is YAML 1.2"
            )

    def _scalar(self, event: Any) -> None:
        line = event.start_mark.line + 1
        text = event.value
        if len(text) > self._limits.max_scalar_chars:
            most = self._limits.max_scalar_chars
            raise _Stop(line, f"{quoted(text)} is too long; a value may have {most} characters")
        if _SURROGATE.search(text):
            raise _Stop(
                line, f"{quoted(text)} has half a character in it; write \\U0001F600, not a pair"
            )
        self._count(1, line)
        node = Scalar(line, self._value(event, line), text)
        if event.anchor:
            self._anchors[event.anchor] = node
        self._attach(node)

    def _value(self, event: Any, line: int) -> ScalarValue:
        tag = event.tag
        if tag is None or tag == "!":  # libyaml does not tell "!" from no tag
            text: str = event.value
            return text if event.style else resolve(text)
        if tag not in CORE_TAGS:
            self._problems.add(line, "", _tag_message(tag))
            return str(event.value)
        try:
            return resolve_tagged(tag, event.value)
        except ValueError as error:
            self._problems.add(line, "", f"{quoted(event.value)} {error}; remove the tag")
            return str(event.value)

    def _alias(self, event: Any) -> None:
        line = event.start_mark.line + 1
        target = self._anchors.get(event.anchor)
        if target is None:
            raise _Stop(line, _syntax_message(f"undefined alias {quoted(event.anchor)}"))
        if any(target is opened.node for opened in self._open):
            raise _Stop(
                line, f"*{event.anchor[:40]} stands within what it means; write the value out"
            )
        self._aliases += 1
        if self._aliases > self._limits.max_aliases:
            raise _Stop(line, f"more than {self._limits.max_aliases} aliases; write the values out")
        self._check_depth(len(self._open) + target.height, line)
        self._count(target.size, line)
        self._attach(target)

    def _start(self, event: Any) -> None:
        line = event.start_mark.line + 1
        self._check_depth(len(self._open) + 1, line)
        self._count(1, line)
        mapping = type(event).__name__ == "MappingStartEvent"
        node = Mapping(line, {}) if mapping else Sequence(line, [])
        if event.tag not in (None, "!", PREFIX + ("map" if mapping else "seq")):
            self._problems.add(line, "", _tag_message(event.tag))
        if event.anchor:
            self._anchors[event.anchor] = node
        self._open.append(_Open(node))

    def _end(self, _event: Any) -> None:
        self._attach(self._open.pop().node)

    def _attach(self, node: Node) -> None:
        if not self._open:
            self._root = node
            return
        top = self._open[-1]
        parent = top.node
        parent.size += node.size
        parent.height = max(parent.height, node.height + 1)
        if isinstance(parent, Sequence):
            parent.items.append(node)
        elif top.key_line:
            if top.key is not None:
                parent.entries[top.key] = TreeEntry(top.key_line, node)
            top.key_line = 0
        else:
            top.key_line = node.line
            top.key = self._key(node, parent)

    def _key(self, node: Node, parent: Mapping) -> str | None:
        if not isinstance(node, Scalar) or not isinstance(node.value, str):
            shown = quoted(node.text) if isinstance(node, Scalar) else describe(node)
            self._problems.add(node.line, "", f"key {shown} is not text; put it in quotes")
            return None
        first = parent.entries.get(node.value)
        if first:
            name = quoted(node.value)
            message = f"key {name} stands twice, here and in line {first.line}; remove one"
            self._problems.add(node.line, "", message)
            return None
        return node.value

    def _check_depth(self, depth: int, line: int) -> None:
        if depth > self._limits.max_depth:
            raise _Stop(line, _too_deep(self._limits))

    def _count(self, nodes: int, line: int) -> None:
        self._nodes += nodes
        if self._nodes > self._limits.max_nodes:
            most = self._limits.max_nodes
            raise _Stop(line, f"more than {most} values, aliases written out; split the file")


def _tag_message(tag: str) -> str:
    shown = "!!" + tag.removeprefix(PREFIX) if tag.startswith(PREFIX) else tag
    text = "" if tag.startswith(PREFIX) else ", or quote the text"
    return f"tag {quoted(shown)} is not allowed; remove it{text}"
