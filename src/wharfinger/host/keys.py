"""Keys of starts, which name their run directories."""

import re

from wharfinger.errors import InvalidInput

KEY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,199}")
"""A start's key, which names its run directory."""


def check_key(key: str) -> None:
    """Raise ``InvalidInput`` for a key that can't be a file's name."""
    if not KEY.fullmatch(key):
        raise InvalidInput(f"key {key[:40]!r}: use 1 to 200 of A-Z a-z 0-9 . _ -, not . or - first")
