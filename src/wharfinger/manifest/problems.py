"""What is wrong with a manifest: one line each, collected over the whole file.

Everything that reads a manifest adds to one ``Problems``; ``load_manifests`` raises them together,
so that a user mends a file in one round.
"""

from wharfinger.errors import InvalidManifest

MAX_SHOWN = 20


class Problems:
    """The problems of one file, which messages call ``source``, in the order of its lines.

    In a ``strict`` file what deserves a warning is a problem, too.
    """

    def __init__(self, source: str, *, strict: bool = False) -> None:
        self.strict = strict
        self.source = source if source.isprintable() else repr(source)
        self.count = 0
        self._shown: list[tuple[int, str]] = []

    @property
    def full(self) -> bool:
        """Whether more will only be counted, so that no work need go into their words."""
        return self.count >= MAX_SHOWN

    def add(self, line: int, field: str, message: str) -> None:
        """Add one problem.

        Args:
            line: Counted from 1; 0 where no line can be named.
            field: Its path such as ``spec.target``; empty for the file's own form.
            message: What is wrong, with the value and the mend.
        """
        if not self.full:
            self._shown.append((line, self.text(line, field, message)))
        self.count += 1

    def text(self, line: int, field: str, message: str) -> str:
        """One line that says where and what; the arguments are those of ``add``."""
        place = f"{self.source}:{line}" if line else self.source
        return ": ".join(filter(None, (place, field, message)))

    def raise_if_any(self) -> None:
        """Raise ``InvalidManifest`` where there is at least one problem."""
        lines = [text for _, text in sorted(self._shown, key=lambda problem: problem[0])]
        if self.count > MAX_SHOWN:
            lines.append(f"{self.source}: and {self.count - MAX_SHOWN} more")
        if lines:
            raise InvalidManifest(lines)
