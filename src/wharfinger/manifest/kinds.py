"""The kinds of value that a manifest's fields take: how each is read, written and described.

``fields`` builds the table of fields from these. A kind is the only place that knows its
value's form, so that what is accepted, what the JSON Schema says and what ``describe``
prints can't differ.
"""

import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, TypeAlias

from wharfinger.errors import InvalidInput
from wharfinger.manifest.problems import Problems
from wharfinger.manifest.tree import Mapping as MappingNode
from wharfinger.manifest.tree import Node, Scalar, Sequence, describe
from wharfinger.model.units import quoted
from wharfinger.model.workload import NAMED_NUMBERS

Json: TypeAlias = "str | int | float | bool | list[Json] | dict[str, Json] | None"

WRONG = object()
"""What a reader returns whose problems have been added."""

REDACTED = "***"

_NAME = re.compile(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
_LABEL_KEY = re.compile(r"^[A-Za-z0-9]([-A-Za-z0-9_./]*[A-Za-z0-9])?$")
_ENV_KEY = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*$")
# A host, perhaps a port, and a path; no user and no password, which would be logged.
_PORT = "[1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]"
_URL = re.compile(
    rf"^https?://([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:({_PORT}))?(/[!-\"$-~]*)?$", re.ASCII
)
_HOST_AND_PORT = re.compile(r"https?://([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):([^/]*)")
_LABEL = r'[A-Za-z_][A-Za-z0-9_]*="[^"\\\\]*"'
_METRIC = re.compile(rf"^[A-Za-z_:][A-Za-z0-9_:]*(\{{{_LABEL}(,{_LABEL})*\}})?$", re.ASCII)
_MAX_URL = 512
_MAX_NAME = 63
_MAX_LABELS = 64
_MAX_ENV = 1024
_MAX_ENV_KEY = 256
_MAX_ARGUMENTS = 1024
_MAX_PATH = 4095
_MAX_REGEX = 512
_NO_NUL = "^[^\\u0000]*$"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a value is read, for its messages.

    Attributes:
        path: The field's path such as ``spec.run.env``.
        line: Of its key.
        problems: Takes what is wrong within it.
        working_directory: What relative paths start from.
    """

    path: str
    line: int
    problems: Problems
    working_directory: str

    def wrong(self, line: int, inside: str, message: str) -> object:
        """Add a problem of a part of the value, and return ``WRONG``."""
        self.problems.add(line, self.path + inside, message)
        return WRONG


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of value.

    Attributes:
        says: Its name in the reference, with an example.
        read: The value of a node. Raises ``InvalidInput`` with value and mend, or adds its
            problems to the place and returns ``WRONG``.
        write: The value in the manifest's form, for ``describe`` and the API.
        schema: Its fragment of JSON Schema.
        secret: Its values are never shown.
    """

    says: str
    read: Callable[[Node, Place], object]
    write: Callable[[Any], Json]
    schema: Mapping[str, Json]
    secret: bool = False


def quantity(
    says: str,
    parse: Callable[[str], object],
    write: Callable[[Any], str],
    pattern: str,
    *examples: str,
    number: Mapping[str, Json] | None = None,
) -> Kind:
    """A value with a unit; ``number`` is the schema of bare numbers where they are allowed."""
    text: dict[str, Json] = {"type": "string", "pattern": pattern, "maxLength": 64}
    schema: dict[str, Json] = {"anyOf": [text, dict(number)]} if number else text
    return Kind(
        says,
        lambda node, _place: parse(_text(node)),
        write,
        {**schema, "examples": list(examples)},
    )


def _text(node: Node) -> str:
    """A scalar as the units' functions read it; numbers in YAML's own bases in decimal."""
    if not isinstance(node, Scalar):
        raise InvalidInput(f"{describe(node)} is given; write one value")
    value = node.value
    if value is None:
        raise InvalidInput("is empty; write a value or remove the line")
    if isinstance(value, str):
        return value
    if type(value) is int:
        return str(value)
    return repr(value) if type(value) is float and abs(value) < float("inf") else node.text


def number(
    says: str,
    low: float,
    high: float,
    *examples: Json,
    open_ends: bool = False,
    integer: bool = False,
) -> Kind:
    """A bare number from ``low`` to ``high``; ``open_ends`` leaves out the two themselves."""
    word = "whole number" if integer else "number"
    between = (
        f"between {low:.12g} and {high:.12g}" if open_ends else f"from {low:.12g} to {high:.12g}"
    )

    def read(node: Node, _place: Place) -> object:
        text = _text(node)
        value = node.value if isinstance(node, Scalar) else None
        if isinstance(value, str):
            raise InvalidInput(f"{quoted(text)} is text; write a bare number such as {examples[0]}")
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InvalidInput(f"{quoted(text)} is not a number; write e.g. {examples[0]}")
        inside = low < value < high if open_ends else low <= value <= high
        if not inside or (integer and value != int(value)):
            raise InvalidInput(
                f"{quoted(text)} is not a {word} {between}; write e.g. {examples[0]}"
            )
        return int(value) if integer else float(value)

    bounds = ("exclusiveMinimum", "exclusiveMaximum") if open_ends else ("minimum", "maximum")
    schema: dict[str, Json] = {
        "type": "integer" if integer else "number",
        bounds[0]: low,
        bounds[1]: high,
        "examples": list(examples),
    }
    return Kind(says, read, _bare, schema)


def _bare(value: float) -> Json:
    """A number without the ``.0`` of a whole one."""
    return int(value) if value == int(value) else value


def constant(text: str) -> Kind:
    """The one text that a field may have."""

    def read(node: Node, _place: Place) -> object:
        given = _text(node)
        if not isinstance(node, Scalar) or node.value != text:
            raise InvalidInput(f"{quoted(given)} is not known; write {text}")
        return text

    return Kind(f"`{text}`", read, lambda _value: text, {"const": text})


def choice(members: type[StrEnum], example: str) -> Kind:
    """One of an enumeration's words."""
    return words([str(member) for member in members], example, members)


def words(words: list[str], example: str, make: Callable[[str], object] = str) -> Kind:
    """One of some words, and what is made of it."""

    def read(node: Node, _place: Place) -> object:
        text = _text(node)
        if text in words:
            return make(text)
        near = closest(text, words)
        mend = f"did you mean {near}?" if near else f"write {example}"
        raise InvalidInput(f"{quoted(text)} is not one of {', '.join(words)}; {mend}")

    says = " or ".join(f"`{word}`" for word in words)
    return Kind(says, read, str, {"enum": [*words], "examples": [example]})


def closest(word: str, known: "list[str]") -> str | None:
    """The known word that a user most probably meant; case, ``_`` and ``-`` do not count."""
    if len(word) > _MAX_NAME:
        return None
    plain = {name.lower(): name for name in known}
    squeezed = word.lower().replace("_", "").replace("-", "")
    if squeezed in plain:
        return plain[squeezed]
    import difflib  # noqa: PLC0415 - only those who misspell pay for it

    near = difflib.get_close_matches(word.lower(), plain, n=1)
    return plain[near[0]] if near else None


def _read_boolean(node: Node, _place: Place) -> object:
    text = _text(node)
    if isinstance(node, Scalar) and isinstance(node.value, bool):
        return node.value
    raise InvalidInput(f"{quoted(text)} is not true or false; write true or false")


def _string(node: Node, what: str) -> str:
    """A scalar that is text; what YAML takes for something else needs quotes."""
    if isinstance(node, Scalar) and isinstance(node.value, str):
        if "\0" in node.value:
            raise InvalidInput(f"{what} has a NUL character in it; remove it")
        return node.value
    if isinstance(node, Scalar) and node.value is not None:
        raise InvalidInput(f"{what} is {describe(node)} to YAML; put it in quotes")
    raise InvalidInput(f"{what} must be text, this is {describe(node)}; write text in quotes")


def _shown(node: Node) -> str:
    return quoted(node.text) if isinstance(node, Scalar) else "the value"


def _read_name(node: Node, _place: Place) -> object:
    text = _string(node, _shown(node))
    if len(text) > _MAX_NAME:
        raise InvalidInput(f"{quoted(text)} is too long; a name has at most {_MAX_NAME} characters")
    if not _NAME.fullmatch(text):
        raise InvalidInput(
            f"{quoted(text)} is not a name; use a-z, 0-9 and - between them, e.g. cache-1"
        )
    return text


def _read_directory(node: Node, place: Place) -> object:
    text = _string(node, _shown(node))
    if not text or len(text) > _MAX_PATH:
        raise InvalidInput(f"{quoted(text)} is not a directory; write e.g. . or /srv/cache")
    if text.startswith("~"):
        raise InvalidInput(f"{quoted(text)}: ~ is not expanded; write the directory in full")
    start = "" if text.startswith("/") else place.working_directory
    # Only what never changes a path's meaning is dropped: "..", after a symlink, would.
    parts = [part for part in f"{start}/{text}".split("/") if part not in ("", ".")]
    return "/" + "/".join(parts)


def _read_regex(node: Node, _place: Place) -> object:
    text = _string(node, _shown(node))
    if len(text) > _MAX_REGEX:
        raise InvalidInput(f"{quoted(text)} is too long; at most {_MAX_REGEX} characters")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they would go to the manager's standard error
            expression = re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        detail = str(error) or type(error).__name__
        raise InvalidInput(
            f"{quoted(text)} is not a regular expression ({detail}); write e.g. 'ops=([0-9]+)'"
        ) from None
    if not expression.groups:
        raise InvalidInput(
            f"{quoted(text)} has no group; put the number in parentheses, e.g. 'ops=([0-9]+)'"
        )
    for name in expression.groupindex:
        if name not in NAMED_NUMBERS:
            near = closest(name, list(NAMED_NUMBERS))
            mend = f"did you mean {near}?" if near else f"name it one of {', '.join(NAMED_NUMBERS)}"
            raise InvalidInput(
                f"{quoted(text)} has a group {quoted(name)} that says nothing here; {mend}"
            )
    return text


def _read_url(node: Node, _place: Place) -> object:
    text = _string(node, _shown_url(node))
    shown = quoted(_without_password(text))
    mend = "write e.g. http://127.0.0.1:8080/metrics"
    if len(text) > _MAX_URL:
        raise InvalidInput(f"{shown} is too long; at most {_MAX_URL} characters")
    if _URL.fullmatch(text):
        return text
    if "@" in text:
        raise InvalidInput(f"{shown} names a user or a password, and manifests are logged; {mend}")
    port = _HOST_AND_PORT.match(text)
    if port is not None:
        raise InvalidInput(f"{shown} has no port from 1 to 65535, but {quoted(port[2])}; {mend}")
    raise InvalidInput(f"{shown} is not an http or https URL; {mend}")


def _shown_url(node: Node) -> str:
    return quoted(_without_password(node.text)) if isinstance(node, Scalar) else "the value"


def _without_password(text: str) -> str:
    """A URL as it may be printed: what stands before an ``@`` may be a secret.

    >>> _without_password("http://me:pass/word@host/metrics")
    'http://***@host/metrics'
    >>> _without_password("me:secret@host/metrics")
    '***@host/metrics'
    """
    before, at, host = text.rpartition("@")
    if not at or _URL.fullmatch(text):
        return text
    scheme, slashes, _ = before.partition("//")
    start = scheme + slashes if slashes and scheme in ("http:", "https:") else ""
    return f"{start}{REDACTED}@{host}"


def _read_metric(node: Node, _place: Place) -> object:
    text = _string(node, _shown(node))
    if len(text) > _MAX_URL or not _METRIC.fullmatch(text):
        raise InvalidInput(
            f"{quoted(text)} is not a metric; write e.g. http_requests_total"
            " or 'http_requests_total{code=\"200\"}'"
        )
    return text


def _read_command(node: Node, place: Place) -> object:
    if not isinstance(node, Sequence):
        raise InvalidInput(
            f"{_shown(node)} is {describe(node)}, not a list; write e.g. "
            f'[sh, -c, "echo $HOME"], one item per argument'
        )
    if not 0 < len(node.items) <= _MAX_ARGUMENTS:
        raise InvalidInput(
            f"the list has {len(node.items)} items; write the program and its arguments, "
            f"at most {_MAX_ARGUMENTS}"
        )
    arguments: list[str] = []
    failed = False
    for index, item in enumerate(node.items):
        try:
            arguments.append(_string(item, _shown(item)))
        except InvalidInput as error:
            place.wrong(item.line, f"[{index}]", str(error))
            failed = True
    if not failed and not arguments[0]:
        return place.wrong(node.items[0].line, "[0]", "'' is not a program; write e.g. sh")
    return WRONG if failed else tuple(arguments)


def _string_map(
    says: str,
    key: re.Pattern[str],
    key_mend: str,
    *,
    max_entries: int,
    max_key: int,
    max_value: int | None,
    secret: bool,
) -> Kind:
    """Text by text. A secret one's values stand in no message."""

    def read_entry(name: str, node: Node) -> str:
        if not known(name):
            raise InvalidInput(f"{quoted(name)} is not a valid key; {key_mend}")
        text = _string(node, "the value" if secret else _shown(node))
        if max_value is not None and len(text) > max_value:
            raise InvalidInput(f"{quoted(text)} is too long; at most {max_value} characters")
        return text

    def known(name: str) -> bool:
        return len(name) <= max_key and key.fullmatch(name) is not None

    def read(node: Node, place: Place) -> object:
        if not isinstance(node, MappingNode):
            raise InvalidInput(f"must be a mapping, this is {describe(node)}; write e.g. {{A: b}}")
        if len(node.entries) > max_entries:
            raise InvalidInput(f"{len(node.entries)} entries are too many; at most {max_entries}")
        values: dict[str, str] = {}
        failed = False
        for name, entry in node.entries.items():
            try:
                values[name] = read_entry(name, entry.node)
            except InvalidInput as error:
                place.wrong(entry.line, f".{name}" if known(name) else "", str(error))
                failed = True
        return WRONG if failed else values

    value_schema: dict[str, Json] = {"type": "string", "pattern": _NO_NUL}
    if max_value is not None:
        value_schema["maxLength"] = max_value
    schema: dict[str, Json] = {
        "type": "object",
        "propertyNames": {"pattern": key.pattern, "maxLength": max_key},
        "additionalProperties": value_schema,
        "maxProperties": max_entries,
    }
    return Kind(says, read, dict, schema, secret)


BOOLEAN = Kind("`true` or `false`", _read_boolean, bool, {"type": "boolean"})

NAME = Kind(
    "name, e.g. `cache-1`",
    _read_name,
    str,
    {"type": "string", "pattern": _NAME.pattern, "maxLength": _MAX_NAME, "examples": ["cache-1"]},
)

DIRECTORY = Kind(
    "path, e.g. `.` or `/srv/cache`",
    _read_directory,
    str,
    {
        "type": "string",
        "pattern": "^[^~\\u0000][^\\u0000]*$",
        "maxLength": _MAX_PATH,
        "examples": [".", "/srv/cache"],
    },
)

FILE = replace(DIRECTORY, says="path, e.g. `progress.log`")

URL = Kind(
    "URL, e.g. `http://127.0.0.1:8080/metrics`",
    _read_url,
    str,
    {
        "type": "string",
        "pattern": _URL.pattern,
        "maxLength": _MAX_URL,
        "examples": ["http://127.0.0.1:8080/metrics"],
    },
)

METRIC = Kind(
    "metric, e.g. `http_requests_total`",
    _read_metric,
    str,
    {
        "type": "string",
        "pattern": _METRIC.pattern,
        "maxLength": _MAX_URL,
        "examples": ["http_requests_total"],
    },
)

REGEX = Kind(
    "regular expression, e.g. `'ops=([0-9]+)'`",
    _read_regex,
    str,
    {"type": "string", "pattern": "\\(", "maxLength": _MAX_REGEX, "examples": ["ops=([0-9]+)"]},
)

COMMAND = Kind(
    'list of text, e.g. `[sh, -c, "exit 0"]`',
    _read_command,
    list,
    {
        "type": "array",
        "prefixItems": [{"type": "string", "pattern": _NO_NUL, "minLength": 1}],
        "items": {"type": "string", "pattern": _NO_NUL},
        "minItems": 1,
        "maxItems": _MAX_ARGUMENTS,
        "examples": [["sh", "-c", "exit 0"]],
    },
)

LABELS = _string_map(
    "text by text, e.g. `{team: web}`",
    _LABEL_KEY,
    "use letters, digits and . _ / - between them",
    max_entries=_MAX_LABELS,
    max_key=_MAX_NAME,
    max_value=_MAX_NAME,
    secret=False,
)

ENVIRONMENT = _string_map(
    'text by text, e.g. `{PORT: "7001"}`',
    _ENV_KEY,
    "use letters, digits and _, and no digit first",
    max_entries=_MAX_ENV,
    max_key=_MAX_ENV_KEY,
    max_value=None,
    secret=True,
)
