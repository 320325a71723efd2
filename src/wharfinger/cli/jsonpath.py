r"""``-o jsonpath=TEMPLATE``: single values of an answer, as ``kubectl`` prints them.

A small part of that language, which is enough for scripts: text, and in braces a path of fields and
list items, or a quoted text such as ``{"\n"}``. Anything more is a task for ``-o json`` and jq.
"""

import re
from collections.abc import Callable
from typing import Any

from wharfinger.errors import InvalidInput

_PIECE = re.compile(r"\{([^{}]*)\}|([^{}]+)")
_STEP = re.compile(r"""\.([A-Za-z0-9_-]+)|\[(-?\d+|\*)\]|\[['"]([^'"]+)['"]\]""")
_ESCAPES = {"\\n": "\n", "\\t": "\t", '\\"': '"', "\\\\": "\\"}
_ESCAPE = re.compile(r'\\[nt"\\]')
_EXAMPLES = "write e.g. {.phase}, {[*].name}, {[0].labels['team']} or {\"\\n\"}"

Step = str | int | None
"""A field, an item, or ``None`` = every item."""
Template = list[str | list[Step]]
"""Texts, and the paths whose values stand between them."""


def parse(template: str) -> Template:
    """The pieces of a template; ``InvalidInput`` where it is none.

    >>> parse("{[*].name} is {.labels['a.b']}")
    [[None, 'name'], ' is ', ['labels', 'a.b']]
    """
    pieces: Template = []
    end = 0
    for match in _PIECE.finditer(template):
        if match.start() != end:
            break
        end = match.end()
        inside = (match[1] or "").strip()
        if match[2] is not None:
            pieces.append(_unescaped(match[2]))
        elif len(inside) > 1 and inside[0] == inside[-1] == '"':
            pieces.append(_unescaped(inside[1:-1]))
        else:
            pieces.append(_steps(inside))
    if end != len(template) or not template:
        raise InvalidInput(f"jsonpath: {template!r} is not a template; {_EXAMPLES}")
    return pieces


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda match: _ESCAPES[match[0]], text)


def _steps(path: str) -> list[Step]:
    rest = path.removeprefix("$").removeprefix("@")
    steps: list[Step] = []
    while match := _STEP.match(rest):
        name, item, quoted = match.groups()
        steps.append(name or quoted or (None if item == "*" else int(item)))
        rest = rest[match.end() :]
    if rest.strip(".") or not path:
        raise InvalidInput(f"jsonpath: {{{path}}} is not a path; {_EXAMPLES}")
    return steps


def render(template: str, value: Any, write: Callable[[Any], str] = str) -> str:
    """The template with the values in their places; several are separated by spaces.

    A field of a list is that of every item; a field that only other items have is ``None``.
    ``InvalidInput`` where there is no such field or item at all.

    >>> rows = [{"name": "a", "cpus": 1.5, "labels": {}}, {"name": "b", "cpus": 2, "labels": {}}]
    >>> render("{[*].name}: {[-1].cpus}", rows)
    'a b: 2'
    """
    return "".join(
        piece if isinstance(piece, str) else " ".join(map(write, _found(piece, value)))
        for piece in parse(template)
    )


def find(path: str, value: Any) -> list[Any]:
    """The values at a path such as ``.target.rate_per_second``, with or without its first dot."""
    return _found(_steps(path if path.startswith((".", "[", "$")) else f".{path}"), value)


def _found(steps: list[Step], value: Any) -> list[Any]:
    values = [value]
    for step in steps:
        if isinstance(step, str) or step is None:
            values = [item for v in values for item in (v if isinstance(v, list) else [v])]
        if isinstance(step, int):
            lists = [v for v in values if isinstance(v, list)]
            values = [v[step] for v in lists if -len(v) <= step < len(v)]
            if lists and not values:
                raise InvalidInput(f"jsonpath: no item [{step}]; there are {len(lists[0])}")
        elif step is not None:
            values = _fields(step, values)
    return values


def _fields(name: str, values: list[Any]) -> list[Any]:
    known = [v for v in values if isinstance(v, dict)]
    if known and not any(name in v for v in known):
        keys = ", ".join(dict.fromkeys(key for v in known for key in v))
        raise InvalidInput(f"no field {name!r}; there are {keys or 'none'}")
    return [v.get(name) for v in known]
