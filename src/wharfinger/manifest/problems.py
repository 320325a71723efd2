"""What is wrong with a manifest: one line each, collected over the whole file.

Everything that reads a manifest adds to one ``Problems``; ``load_manifests`` raises them
together, so that a user mends a file in one round and not one line a time.
"""

from wharfinger.errors import InvalidManifest

MOST_SHOWN = 20


class Problems:
    """The problems of one file, in the order of its lines.

    Attributes:
        source: What the messages call the file.
        count: How many were found, shown or not.
    """

    def __init__(self, source: str) -> None:
        self.source = source if source.isprintable() else repr(source)
        self.count = 0
        self._found: list[tuple[int, str]] = []

    @property
    def full(self) -> bool:
        """Whether more will only be counted, so that no work need go into their words."""
        return self.count >= MOST_SHOWN

    def add(self, line: int, field: str, message: str) -> None:
        """Note one problem.

        Args:
            line: Where, counted from 1; 0 where no line can be named.
            field: The field's path such as ``spec.target``; empty for the file's own form.
            message: What is wrong, with the value and the mend.
        """
        self.count += 1
        if self.count <= MOST_SHOWN:
            place = f"{self.source}:{line}" if line else self.source
            self._found.append(
                (line, f"{place}: {field}: {message}" if field else f"{place}: {message}")
            )

    def raise_if_any(self) -> None:
        """Raise what was found.

        Raises:
            InvalidManifest: There was at least one problem.
        """
        if not self.count:
            return
        lines = [text for _, text in sorted(self._found, key=lambda found: found[0])]
        if self.count > MOST_SHOWN:
            lines.append(f"{self.source}: and {self.count - MOST_SHOWN} more")
        raise InvalidManifest(lines)
