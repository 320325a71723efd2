"""What may be sent to a terminal: nothing that a workload's name or message could command it."""

import sys
import unicodedata

_DANGEROUS = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
"""Control, formatting (also right-to-left overrides), surrogates, unassigned, line ends."""


def printable(text: str) -> str:
    r"""The text with everything that a terminal might obey written as an escape.

    >>> printable("a\x1b[31mb")
    'a\\x1b[31mb'
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        character.encode("unicode_escape").decode()
        if unicodedata.category(character) in _DANGEROUS
        else character
        for character in text
    )


def is_interactive() -> bool:
    """Whether somebody looks at the output as it comes."""
    return sys.stdout.isatty() and sys.stderr.isatty()
