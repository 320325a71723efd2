"""JSON merge patch (RFC 7396): an update says what is to be different and nothing else."""

from typing import Any

from wharfinger.errors import InvalidInput

MAX_DEPTH = 32


def merged(document: Any, patch: Any, depth: int = 0) -> Any:
    """The document with the patch applied; ``None`` in a patch removes the field.

    >>> merged({"a": 1, "b": {"c": 2}}, {"b": {"c": None, "d": 3}})
    {'a': 1, 'b': {'d': 3}}

    Raises:
        InvalidInput: The patch is nested deeper than any manifest.
    """
    if depth > MAX_DEPTH:
        raise InvalidInput(f"the patch is nested deeper than {MAX_DEPTH} levels; no manifest is")
    if not isinstance(patch, dict):
        return patch
    result = dict(document) if isinstance(document, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value, depth + 1)
    return result
