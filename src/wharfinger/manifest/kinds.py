"""The kinds of value that fields take: how each is read, written and described.

The tables of fields of manifests and scenarios are made of these. A kind is the only place that
knows its value's form, so that what is accepted, what the JSON Schema says and what ``describe``
prints cannot differ.
"""

import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import Any, TypeAlias, cast

from wharfinger.errors import InvalidInput
from wharfinger.manifest.tree import Mapping as MappingNode
from wharfinger.manifest.tree import (
    Node,
    Read,
    Scalar,
    Sequence,
    Several,
    describe,
    each,
    read_items,
    scalar_text,
    string,
)
from wharfinger.model import units
from wharfinger.model.units import quoted
from wharfinger.model.workload import NAMED_NUMBERS

Json: TypeAlias = "str | int | float | bool | list[Json] | dict[str, Json] | None"

REDACTED = "***"
MAX_NAME = 63
MIN_MEMORY_BYTES = 1024**2
WHOLE = "whole number"
RANDOM_CHARACTERS = 5
"""How many are appended to a ``PREFIX``."""

_MAX_TEXT = 512
_MAX_USER = 32
_MAX_PATH = 4095
_MAX_ARGUMENTS = 1024
# A host, perhaps a port, and a path; no user and no password, which would be logged.
_PORT = "[1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]"
_HOST = r"^https?://([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])"
_URL = re.compile(rf"{_HOST}(:({_PORT}))?(/[!-\"$-~]*)?$", re.ASCII)
_HOST_AND_PORT = re.compile(rf"{_HOST}:([^/]*)")
_LABEL = r'[A-Za-z_][A-Za-z0-9_]*="[^"\\\\]*"'


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a section, by its kind; ``doc`` says what it means.

    Attributes:
        attribute: Where its section's object keeps it; empty = as its name says, ``None`` =
            nowhere, it is a constant.
        name: Its key, where it stands at an attribute that says another.
        required: ``None`` = if the attribute has no default.
        default: Its default in words, where it is not simply the attribute's.
        not_supported: What this version does not do; any value but the default has a warning.
        unstated: Attribute beside it that is true where nobody stated the field, which is then not
            written.
    """

    kind: "Kind"
    doc: str
    attribute: str | None = ""
    name: str = ""
    required: bool | None = None
    default: str = ""
    not_supported: str = ""
    unstated: str = ""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of value. Called with what a field says, it makes the field.

    ``says`` names it in the reference; ``write`` gives the manifest's form, ``None`` = nothing is
    written; values of a ``secret`` one are never shown; ``word`` stands for ``None``.
    """

    says: str
    read: Read
    write: Callable[[Any], Json]
    schema: Mapping[str, Json]
    secret: bool = False
    word: str = ""

    def __call__(self, doc: str, attribute: str | None = "", **options: Any) -> Field:
        """A field of this kind; see ``Field``."""
        return Field(self, doc, attribute, **options)


# --- kinds of one scalar --------------------------------------------------------------------


def closest(word: str, choices: list[str]) -> str | None:
    """The known word that a user most probably meant; case, ``_`` and ``-`` do not count."""
    if len(word) > MAX_NAME:
        return None
    plain = {name.lower(): name for name in choices}
    squeezed = word.lower().replace("_", "").replace("-", "")
    if squeezed in plain:
        return plain[squeezed]
    import difflib  # noqa: PLC0415 - only those who misspell pay for it

    near = difflib.get_close_matches(word.lower(), plain, n=1)
    return plain[near[0]] if near else None


def quantity(
    noun: str,
    parse: Callable[[str], object],
    write: Callable[[Any], str],
    pattern: str,
    *examples: str,
    bare: Mapping[str, Json] | None = None,
) -> Kind:
    """A value with a unit; ``bare`` is the schema of bare numbers where they are allowed."""
    with_unit: dict[str, Json] = {"type": "string", "pattern": pattern, "maxLength": 64}
    schema: dict[str, Json] = {"anyOf": [with_unit, dict(bare)]} if bare else with_unit
    schema["examples"] = [*examples]
    says = _says(noun, *examples[:2])
    return Kind(says, lambda node, _: parse(scalar_text(node)), write, schema)


def _says(noun: str, *examples: Json) -> str:
    return f"{noun}, e.g. " + " or ".join(f"`{example}`" for example in examples)


def number(
    low: float, high: float, *examples: Json, noun: str = "number", open_ends: bool = False
) -> Kind:
    """A bare number from ``low`` to ``high``; ``open_ends`` leaves out the two themselves."""
    whole = noun == WHOLE
    between = "between {} and {}" if open_ends else "from {} to {}"
    wanted = f"a {WHOLE if whole else 'number'} {between.format(f'{low:.12g}', f'{high:.12g}')}"
    mend = f"write e.g. {examples[0]}"

    def read(node: Node, _: str) -> object:
        text = quoted(scalar_text(node))
        value = node.value if isinstance(node, Scalar) else None
        if isinstance(value, str):
            raise InvalidInput(f"{text} is text; write a bare number such as {examples[0]}")
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InvalidInput(f"{text} is not a number; {mend}")
        inside = low < value < high if open_ends else low <= value <= high
        if not inside or (whole and value != int(value)):
            raise InvalidInput(f"{text} is not {wanted}; {mend}")
        return int(value) if whole else float(value)

    def write(value: float) -> Json:
        return int(value) if value == int(value) else value

    bounds = ("exclusiveMinimum", "exclusiveMaximum") if open_ends else ("minimum", "maximum")
    schema: dict[str, Json] = {bounds[0]: low, bounds[1]: high, "examples": [*examples]}
    schema["type"] = "integer" if whole else "number"
    return Kind(_says(noun, examples[0]), read, write, schema)


def words(choices: list[str], example: str, make: Callable[[str], object] = str) -> Kind:
    """One of some words, and what is made of it."""

    def read(node: Node, _: str) -> object:
        given = scalar_text(node)
        if given in choices:
            return make(given)
        near = closest(given, choices)
        wrong = "known" if len(choices) == 1 else f"one of {', '.join(choices)}"
        mend = f"did you mean {near}?" if near else f"write {example}"
        raise InvalidInput(f"{quoted(given)} is not {wrong}; {mend}")

    says = " or ".join(f"`{word}`" for word in choices)
    return Kind(says, read, str, {"enum": [*choices], "examples": [example]})


def choice(members: type[StrEnum], example: str) -> Kind:
    """One of an enumeration's words."""
    return words([str(member) for member in members], example, members)


def constant(word: str) -> Kind:
    """The one word that a field may have; nothing keeps it."""
    return replace(words([word], word), write=lambda _: word)


def or_word(kind: Kind, word: str) -> Kind:
    """A kind that may be a word instead, which stands for ``None``."""

    def read(node: Node, directory: str) -> object:
        given = node.value if isinstance(node, Scalar) else None
        return None if given == word else kind.read(node, directory)

    return replace(
        kind,
        says=f"{kind.says}, or `{word}`",
        read=read,
        write=lambda value: word if value is None else kind.write(value),
        schema={"anyOf": [dict(kind.schema), {"const": word}]},
        word=word,
    )


def _read_boolean(node: Node, _: str) -> object:
    if isinstance(node, Scalar) and isinstance(node.value, bool):
        return node.value
    given = quoted(scalar_text(node))
    raise InvalidInput(f"{given} is not true or false; write true or false")


# --- kinds of text --------------------------------------------------------------------------


def text(
    noun: str,
    pattern: str,
    most: int,
    mend: str,
    *examples: Json,
    check: Callable[[str, str], str] | None = None,
) -> Kind:
    """Text of at most so many characters that a pattern matches.

    ``check`` makes the value of the text and a directory, or refuses it with a reason of its own;
    then the pattern is the schema's alone.
    """

    def read(node: Node, directory: str) -> object:
        given = string(node)
        if len(given) > most:
            raise InvalidInput(f"{quoted(given)} is too long; at most {most} characters")
        if check:
            return check(given, directory)
        if not re.fullmatch(pattern, given):
            raise InvalidInput(f"{quoted(given)} is not a {noun}; {mend}")
        return given

    schema: dict[str, Json] = {"type": "string", "pattern": pattern, "maxLength": most}
    schema["examples"] = [*examples]
    return Kind(_says(noun, *examples), read, str, schema)


def listed(kind: Kind, example: str, most: int) -> Kind:
    """A list of at least one value of a kind, each once; an empty one is not written."""

    def read(node: Node, directory: str) -> object:
        if not isinstance(node, Sequence):
            raise InvalidInput(f"must be a list, this is {describe(node)}; write e.g. {example}")
        if not 0 < len(node.items) <= most:
            raise InvalidInput(f"the list has {len(node.items)} items; write 1 to {most}")
        values = read_items(kind.read, node, directory)
        for index, value in enumerate(values):
            if value in values[:index]:
                line = node.items[index].line
                raise Several([(line, f"[{index}]", f"{value!r} stands twice; remove one")])
        return values

    schema: dict[str, Json] = {"type": "array", "items": dict(kind.schema), "minItems": 1}
    schema |= {"maxItems": most, "uniqueItems": True}
    return Kind(f"list, e.g. `{example}`", read, lambda values: list(values) or None, schema)


def _path(path: str, directory: str) -> str:
    if not path:
        raise InvalidInput("'' is not a path; write e.g. . or /srv/cache")
    if path.startswith("~"):
        raise InvalidInput(f"{quoted(path)}: ~ is not expanded; write the directory in full")
    start = "" if path.startswith("/") else directory
    # Only what never changes a path's meaning is dropped: "..", after a symlink, would.
    return "/" + "/".join(part for part in f"{start}/{path}".split("/") if part not in ("", "."))


def _compiled(pattern: str, mend: str) -> re.Pattern[str]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they would go to the manager's standard error
            return re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        detail = str(error) or type(error).__name__
        message = f"{quoted(pattern)} is not a regular expression ({detail}); write {mend}"
        raise InvalidInput(message) from None


def _line(pattern: str, _: str) -> str:
    _compiled(pattern, "e.g. 'listening on'")
    if not pattern:
        raise InvalidInput("'' matches every line; write e.g. 'listening on'")
    return pattern


def _regex(pattern: str, _: str) -> str:
    mend = "e.g. 'ops=([0-9]+)'"
    expression = _compiled(pattern, mend)
    if not expression.groups:
        message = f"{quoted(pattern)} has no group; put the number in parentheses, {mend}"
        raise InvalidInput(message)
    for name in expression.groupindex:
        if name not in NAMED_NUMBERS:
            near = closest(name, list(NAMED_NUMBERS))
            mend = f"did you mean {near}?" if near else f"name it one of {', '.join(NAMED_NUMBERS)}"
            raise InvalidInput(f"{quoted(pattern)} has an unknown group {quoted(name)}; {mend}")
    return pattern


def _read_url(node: Node, _: str) -> object:
    shown = quoted(_without_password(node.text)) if isinstance(node, Scalar) else ""
    url = string(node, shown)
    if len(url) > _MAX_TEXT:
        raise InvalidInput(f"{shown} is too long; at most {_MAX_TEXT} characters")
    if not _URL.fullmatch(url):
        port = _HOST_AND_PORT.match(url)
        wrong = "is not an http or https URL"
        if "@" in url:
            wrong = "names a user or a password, and manifests are logged"
        elif port is not None:
            wrong = f"has no port from 1 to 65535, but {quoted(port[2])}"
        raise InvalidInput(f"{shown} {wrong}; write e.g. http://127.0.0.1:8080/metrics")
    return url


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


# --- kinds of lists and mappings ------------------------------------------------------------


def _read_command(node: Node, directory: str) -> object:
    if not isinstance(node, Sequence):
        shown = quoted(node.text) if isinstance(node, Scalar) else "the value"
        mend = 'write e.g. [sh, -c, "echo $HOME"], one item per argument'
        raise InvalidInput(f"{shown} is {describe(node)}, not a list; {mend}")
    if not 0 < len(node.items) <= _MAX_ARGUMENTS:
        mend = f"write the program and its arguments, at most {_MAX_ARGUMENTS}"
        raise InvalidInput(f"the list has {len(node.items)} items; {mend}")
    command = read_items(lambda item, _: string(item), node, directory)
    if not command[0]:
        raise Several([(node.items[0].line, "[0]", "'' is not a program; write e.g. sh")])
    return command


def mapping(
    says: str,
    example: str,
    read_value: Read,
    schema: dict[str, Json],
    *,
    keys: str = "",
    key_mend: str = "",
    max_key: int = 0,
    secret: bool = False,
) -> Kind:
    """Values by the user's own keys. Bounds are the schema's; a secret one's values are hidden."""
    most = cast("int", schema.get("maxProperties", 2**31))

    def is_key(name: str) -> bool:
        return not keys or (len(name) <= max_key and re.fullmatch(keys, name) is not None)

    def read(node: Node, directory: str) -> object:
        if not isinstance(node, MappingNode):
            raise InvalidInput(f"must be a mapping, this is {describe(node)}; write e.g. {example}")
        if len(node.entries) > most:
            raise InvalidInput(f"{len(node.entries)} entries are too many; at most {most}")
        wrong = [
            (entry.line, "", f"{quoted(name)} is not a valid key; {key_mend}")
            for name, entry in node.entries.items()
            if not is_key(name)
        ]
        places = ((e.line, f".{name}", e.node) for name, e in node.entries.items() if is_key(name))
        return dict(zip(node.entries, each(read_value, directory, places, wrong), strict=True))

    if keys:
        schema["propertyNames"] = {"pattern": keys, "maxLength": max_key}
    return Kind(_says(says, example), read, dict, {"type": "object", **schema}, secret)


def _read_label(node: Node, _: str) -> object:
    label = string(node)
    if len(label) > MAX_NAME:
        raise InvalidInput(f"{quoted(label)} is too long; at most {MAX_NAME} characters")
    return label


# --- those that manifests and scenarios share -----------------------------------------------


def _tolerance(text: str) -> float:
    fraction = units.parse_fraction(text)
    if fraction >= 1:
        mend = "write less than 100%, e.g. 5%"
        raise InvalidInput(f"{quoted(text)} would tolerate anything; {mend}")
    return fraction


def _percentile(node: Node, directory: str) -> object:
    value = cast("float", _BELOW_100.read(node, directory))
    if value < 1:
        wrong = f"{quoted(scalar_text(node))} is a fraction, not a percentile"
        raise InvalidInput(f"{wrong}; write {value * 100:.10g} for p{value * 100:.10g}")
    return value


def _positive(pattern: str, zeros: str = "[0.]") -> str:
    """A pattern of what is not zero: the first digit after all ``zeros`` is another."""
    return f"^(?={zeros}*[1-9])" + pattern.removeprefix("^")


_BELOW_100 = number(0, 100, 99, 99.9, open_ends=True)
PERCENTILE = replace(
    _BELOW_100,
    read=_percentile,
    schema={"type": "number", "minimum": 1, "exclusiveMaximum": 100, "examples": [99, 99.9]},
)
BOOLEAN = Kind("`true` or `false`", _read_boolean, bool, {"type": "boolean"})
DURATION = quantity(
    "duration",
    units.parse_duration_seconds,
    units.format_duration,
    _positive(units.DURATION_PATTERN, "[0.a-z]"),
    *("10m", "2ms", "1h30m"),
)
TIME = quantity(
    "duration",
    partial(units.parse_duration_seconds, allow_zero=True),
    units.format_duration,
    units.DURATION_PATTERN,
    *("10s", "0s"),
)
RATE = quantity(
    "rate",
    units.parse_rate_per_second,
    units.format_rate,
    _positive(units.RATE_PATTERN),
    *("40k/s", "3M/min", "40000/s"),
)
TOLERANCE = quantity(
    "fraction",
    _tolerance,
    units.format_fraction,
    units.FRACTION_PATTERN,
    *("5%", "0.05"),
    bare={"type": "number", "minimum": 0, "exclusiveMaximum": 1},
)
CPU = quantity(
    "CPUs",
    units.parse_cpu_millicpus,
    units.format_cpu,
    _positive(units.CPU_PATTERN),
    *("250m", "2", "0.5"),
    bare={"type": "number", "exclusiveMinimum": 0, "maximum": 1_000_000},
)
MEMORY = quantity(
    "bytes",
    partial(units.parse_bytes, minimum=MIN_MEMORY_BYTES),
    units.format_bytes,
    _positive(units.BYTES_PATTERN),
    *("512Mi", "4Gi", "1.5G"),
    bare={"type": "integer", "minimum": MIN_MEMORY_BYTES, "maximum": units.MAX_BYTES},
)
PREFIX = replace(
    text(
        "beginning of a name",
        "^[a-z0-9][-a-z0-9]*$",
        MAX_NAME - RANDOM_CHARACTERS,
        "use a-z, 0-9 and - after the first, e.g. report-",
        "report-",
    ),
    write=lambda _: None,
)
USER = replace(
    text(
        "user",
        "^[A-Za-z_][-A-Za-z0-9_.]*$",
        _MAX_USER,
        "write a user's name, e.g. www-data",
        "www-data",
    ),
    write=lambda user: user or None,
)
NAME = text(
    "name",
    "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
    MAX_NAME,
    "use a-z, 0-9 and - between them, e.g. cache-1",
    "cache-1",
)
DIRECTORY = text(
    "path",
    "^[^~\\u0000][^\\u0000]*$",
    _MAX_PATH,
    "",
    *(".", "/srv/cache"),
    check=_path,
)
NAMES = listed(NAME, "[extract, load]", 100)
FILE = replace(DIRECTORY, says="path, e.g. `progress.log`")
_ANY_URL = text("URL", _URL.pattern, _MAX_TEXT, "", "http://127.0.0.1:8080/metrics")
URL = replace(_ANY_URL, read=_read_url)
METRIC = text(
    "metric",
    rf"^[A-Za-z_:][A-Za-z0-9_:]*(\{{{_LABEL}(,{_LABEL})*\}})?$",
    _MAX_TEXT,
    "write e.g. http_requests_total or 'http_requests_total{code=\"200\"}'",
    "http_requests_total",
)
REGEX = text("regular expression", "\\(", _MAX_TEXT, "", "ops=([0-9]+)", check=_regex)
LINE = text("regular expression", r"[\s\S]", _MAX_TEXT, "", "listening on", check=_line)
_STRING: dict[str, Json] = {"type": "string", "pattern": "^[^\\u0000]*$"}
COMMAND = Kind(
    'list of text, e.g. `[sh, -c, "exit 0"]`',
    _read_command,
    list,
    {
        "type": "array",
        "prefixItems": [_STRING | {"minLength": 1}],
        "items": _STRING,
        "minItems": 1,
        "maxItems": _MAX_ARGUMENTS,
        "examples": [["sh", "-c", "exit 0"]],
    },
)
LABEL_KEYS = r"^[A-Za-z0-9]([-A-Za-z0-9_./]*[A-Za-z0-9])?$"
LABEL_MEND = "use letters, digits and . _ / - between them"
LABELS = mapping(
    "text by text",
    "{team: web}",
    _read_label,
    {"additionalProperties": _STRING | {"maxLength": MAX_NAME}, "maxProperties": 64},
    keys=LABEL_KEYS,
    key_mend=LABEL_MEND,
    max_key=MAX_NAME,
)
ENVIRONMENT = mapping(
    "text by text",
    '{PORT: "7001"}',
    lambda node, _: string(node, "the value"),
    {"additionalProperties": _STRING, "maxProperties": 1024},
    keys="^[A-Za-z_][A-Za-z0-9_]*$",
    key_mend="use letters, digits and _, and no digit first",
    max_key=256,
    secret=True,
)
