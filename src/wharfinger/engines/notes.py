"""What an engine must find again after a crash: a small durable map, given by the runtime.

For forbidden keys, job numbers and handles: what an engine can't ask of what runs. An engine keeps
no files of its own for that. ``wharfinger.runtime.notes`` keeps it in the state directory.
"""

from collections.abc import Mapping
from typing import Protocol


class Notes(Protocol):
    """Short texts by name. Every method may be called on any thread; writing takes milliseconds."""

    def get(self, name: str) -> str | None:
        """The text of that name; ``None`` = there is none."""

    def items(self) -> Mapping[str, str]:
        """All of them, in the order of their names."""

    def put(self, texts: Mapping[str, str]) -> None:
        """Write these, in place of any of their names.

        On return they are on disk, all or none. Raises ``OutOfSpace``; then nothing has changed.
        """

    def delete(self, *names: str) -> None:
        """Remove these, durably; a name that is not there is no error. Raises as ``put``."""


class MemoryNotes:
    """Notes that last as long as this object, for tests.

    >>> notes = MemoryNotes()
    >>> notes.put({"job": "7"})
    >>> notes.get("job"), notes.get("other")
    ('7', None)
    """

    def __init__(self, texts: Mapping[str, str] | None = None) -> None:
        self._texts = dict(texts or {})

    def get(self, name: str) -> str | None:
        """See ``Notes.get``."""
        return self._texts.get(name)

    def items(self) -> Mapping[str, str]:
        """See ``Notes.items``."""
        return dict(sorted(self._texts.items()))

    def put(self, texts: Mapping[str, str]) -> None:
        """See ``Notes.put``."""
        self._texts.update(texts)

    def delete(self, *names: str) -> None:
        """See ``Notes.delete``."""
        for name in names:
            self._texts.pop(name, None)
