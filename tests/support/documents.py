"""The commands that the documents show, and a shell that runs them in order, as a reader does."""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.support import wait_until

ROOT = Path(__file__).parents[2]
UNTIL_IT_ANSWERS = "until wharfinger get status; do sleep 0.2; done"
_COPIED = (
    *("README.md", "VERSION", "LICENSE", "pyproject.toml", "meson.build"),
    *("examples", "scripts", "src", "native"),
)
_FENCE = re.compile(r"^( *)```(\w*)")
_HEREDOC = re.compile(r"<<'?(\w+)'?")
_MARK = "\x1e"


@dataclass(frozen=True, slots=True)
class Shown:
    """A command of a document; ``line`` counts from 1."""

    line: int
    command: str


def blocks(text: str) -> Iterator[tuple[int, str, list[str]]]:
    """Every fenced block: the line after its fence, its language, its lines."""
    language, begin, inside = "", 0, None
    for number, line in enumerate(text.splitlines(), 1):
        fence = _FENCE.match(line)
        if fence and inside is None:
            language, begin, inside = fence[2], number + 1, []
        elif fence and inside is not None:
            yield begin, language, inside
            inside = None
        elif inside is not None:
            inside.append(line.strip() if line.lstrip().startswith("$ ") else line)


def shown_commands(text: str) -> list[Shown]:
    """What stands after ``$`` in ``console`` blocks, with the lines that belong to it."""
    found = []
    for begin, language, lines in blocks(text):
        if language != "console":
            continue
        numbered = iter(enumerate(lines, begin))
        for number, line in numbered:
            if not line.startswith("$ "):
                continue
            words = [line[2:]]
            while words[-1].endswith("\\"):
                words.append(next(numbered)[1])
            if end := _HEREDOC.search(words[0]):
                while words[-1] != end[1]:
                    words.append(next(numbered)[1])
            found.append(Shown(number, "\n".join(words)))
    return found


def fresh_copy(directory: Path) -> tuple[Path, Path]:
    """A copy of the tree as a clone has it, and an empty home, both in ``directory``."""
    tree, home = directory / "wharfinger", directory / "home"
    home.mkdir()
    tree.mkdir()
    for name in _COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source, tree)
    return tree, home


def not_installed() -> dict[str, str]:
    """Variables under which this process' own installation is not found."""
    own = {str(Path(sys.executable).parent), os.environ.get("VIRTUAL_ENV", "") + "/bin"}
    path = [folder for folder in os.environ["PATH"].split(os.pathsep) if folder not in own]
    return {"PATH": os.pathsep.join(path), "WHARFINGER_VENV": "", "VIRTUAL_ENV": ""}


def stop_all(home: Path) -> None:
    """End the manager of this home, if there is one, and all that it runs."""
    down = [sys.executable, "-m", "wharfinger", "down", "--all", "--timeout", "60s"]
    subprocess.run(down, env={**os.environ, "HOME": str(home)}, capture_output=True, check=False)


class Shell:
    """A ``bash`` that stays open: what one command sets holds for the next.

    Args:
        directory: Where it begins, and where its output is kept.
        environment: Added to this process' own.
    """

    def __init__(self, directory: Path, environment: Mapping[str, str]) -> None:
        self.output = directory.parent / f"{directory.name}.output"
        self._process = subprocess.Popen(
            ["bash", "--norc"],
            cwd=directory,
            env={**os.environ, **environment},
            stdin=subprocess.PIPE,
            stdout=self.output.open("w"),
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            # Whoever runs the tests in the background hands down an ignored interrupt.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509 - no threads here
        )

    def run(self, command: str, timeout_seconds: float = 120.0) -> tuple[int, str]:
        """Its exit status, and what was printed meanwhile."""
        before = self.output.stat().st_size
        assert self._process.stdin is not None
        self._process.stdin.write(f"{command}\nprintf '{_MARK}%d{_MARK}' $?\n")
        self._process.stdin.flush()

        def ended() -> tuple[int, str] | None:
            printed = self.output.read_bytes()[before:].decode(errors="replace")
            done = re.search(f"{_MARK}(\\d+){_MARK}", printed)
            assert done or self._process.poll() is None, f"the shell ended: {printed}"
            return (int(done[1]), printed.replace(done[0], "")) if done else None

        return wait_until(ended, timeout_seconds, command)

    def close(self) -> None:
        """End the shell and what it waits for; what has a session of its own goes on."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()
