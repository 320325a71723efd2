"""The folder of one experiment: copies of its input, and its result.

``wharfinger experiment run`` opens one. With ``--out DIR`` it becomes DIR when all is done, so that
no reader sees half of a result; without, it is removed.
"""

import contextlib
import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from wharfinger.errors import InvalidInput

RESULTS = "results.json"
"""Identifies a directory of results."""
INPUTS = "inputs"
MAX_COPIED_BYTES = 5_000_000
"""Of all inputs; larger ones are recorded by their digest alone."""


@dataclass(frozen=True, slots=True)
class Input:
    """A file that was read; ``kept`` = the folder has a copy."""

    name: str
    path: str
    size_bytes: int
    sha256: str
    kept: bool


class Workspace:
    """One experiment's folder, empty at first, and the files that the experiment reads.

    ``fates`` is the directory for a file of each run's fates; ``None`` = the folder is removed.
    """

    def __init__(self, folder: Path, *, kept: bool = False) -> None:
        self.folder = folder
        self.inputs: list[Input] = []
        self.fates = folder / "fates" if kept else None

    def read(self, directory: Path, names: Sequence[str], under: str = "") -> Path:
        """Copy existing files of a directory, and return where to read them.

        That is the directory itself where they are too large together; ``under`` names a folder of
        the copies.
        """
        paths = [path for name in names if (path := directory / name).is_file()]
        keep = sum(path.stat().st_size for path in paths) <= MAX_COPIED_BYTES
        copies = self.folder / INPUTS / under
        if keep:
            copies.mkdir(parents=True, exist_ok=True)
        for path in paths:
            content = path.read_bytes()
            if keep:
                (copies / path.name).write_bytes(content)
            digest = hashlib.sha256(content).hexdigest()
            self.inputs.append(
                Input(str(Path(under, path.name)), str(path), len(content), digest, keep)
            )
        return copies if keep else directory.absolute()

    def write(self, name: str, text: str) -> Path:
        """A file in the folder, such as ``scenarios/high.yaml``."""
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return path


@contextlib.contextmanager
def workspace(out: Path | None, *, force: bool = False) -> Iterator[Workspace]:
    """A folder that becomes ``out`` at the end of the block, if that ends well, or is removed.

    ``force`` replaces an existing directory of results.

    Raises:
        InvalidInput: ``out`` is something else already.
        OSError: The folder can't be made.
    """
    if out is None:
        with tempfile.TemporaryDirectory(prefix="wharfinger-experiment-") as name:
            yield Workspace(Path(name))
        return
    target = _checked(out, force=force)
    target.parent.mkdir(parents=True, exist_ok=True)
    new = target.with_name(f".{target.name}.new-{os.getpid()}")
    new.mkdir()
    try:
        yield Workspace(new, kept=True)
        _put(new, target)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def _checked(out: Path, *, force: bool) -> Path:
    target = out.resolve()
    if not target.exists():
        return target
    if not target.is_dir():
        raise InvalidInput(f"--out: {str(out)!r} is a file; name a directory")
    if not any(target.iterdir()):
        return target
    if Path.cwd().is_relative_to(target):
        raise InvalidInput(f"--out: {str(out)!r} is where this runs; name another directory")
    if not force:
        raise InvalidInput(
            f"--out: {str(out)!r} is not empty; name another directory, or add --force to replace "
            "results that are there"
        )
    if not (target / RESULTS).is_file():
        raise InvalidInput(
            f"--out: {str(out)!r} holds something else than results, which --force does not "
            "replace; name another directory"
        )
    return target


def _put(new: Path, target: Path) -> None:
    old = target.with_name(f".{target.name}.old-{os.getpid()}")
    if target.exists():
        target.rename(old)
    new.rename(target)
    shutil.rmtree(old, ignore_errors=True)


def file_name(words: str) -> str:
    """The words as a file's name: a policy may have brackets, a case slashes.

    >>> file_name("performance-quasar[confidence=0.9]")
    'performance-quasar-confidence-0.9'
    """
    return re.sub(r"[^\w.+-]+", "-", words).strip("-.") or "picture"
