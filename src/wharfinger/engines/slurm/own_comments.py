"""Comments of our own jobs: which start or profiler each is, and of which manager."""

import re

# Any user can write such a comment, and what it names becomes a path: it is a file's name alone.
_FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,254}")
_COMMENT = re.compile(rf"wharfinger-(run|profile) ([0-9a-f]{{12}}) ({_FILE_NAME.pattern})")


def comment_of(identity: str, key: str) -> str:
    """A job's comment, by which it is found again.

    >>> comment_of("0123456789ab", "k.1")
    'wharfinger-run 0123456789ab k.1'
    """
    return f"wharfinger-run {identity} {key}"


def key_of(identity: str, comment: str) -> str | None:
    """The key of a job of ours by its comment; ``None`` = it is not ours.

    >>> key_of("0123456789ab", "wharfinger-run 0123456789ab k.1")
    'k.1'
    >>> key_of("0123456789ab", "wharfinger: {}")
    """
    return _named(identity, comment, "run")


def profiler_comment(identity: str, name: str) -> str:
    """The comment of a job that profiles; it is no start.

    >>> profiler_name("0123456789ab", profiler_comment("0123456789ab", "k.0"))
    'k.0'
    >>> key_of("0123456789ab", profiler_comment("0123456789ab", "k.0"))
    """
    return f"wharfinger-profile {identity} {name}"


def profiler_name(identity: str, comment: str) -> str | None:
    """The name of a job of ours that profiles, by its comment; ``None`` = it is none.

    >>> profiler_name("0123456789ab", "wharfinger-profile 0123456789ab ../../home/alice")
    """
    return _named(identity, comment, "profile")


def is_file_name(name: str) -> bool:
    """Whether it is the name of a file, as that of a profiler's directory, or a node's: no path."""
    return _FILE_NAME.fullmatch(name) is not None


def _named(identity: str, comment: str, kind: str) -> str | None:
    match = _COMMENT.fullmatch(comment.strip())
    return match[3] if match and match.group(1, 2) == (kind, identity) else None
