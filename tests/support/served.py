"""``wharfinger up`` with an engine of the test's own, as a process: real sockets, real signals.

Run as a program it takes what ``up`` takes; imported, it starts such a process.
"""

import subprocess
import sys
from pathlib import Path

from wharfinger.cli.main import main as command
from wharfinger.runtime import assembly
from wharfinger.testing.memory import MemoryEngine

_QUIET = ("--log", "none", "--log-level", "error")
"""Other managers of this machine, of which it would warn, are no concern of a test."""


class Served:
    """A manager on a memory engine, in a process of its own."""

    def __init__(self, state: Path, *options: str, environment: dict[str, str] | None = None):
        self.state = state
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tests.support.served",
                "up",
                "--state",
                str(state),
                *_QUIET,
                *options,
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            cwd=Path(__file__).parents[2],
        )
        assert self.process.stdout is not None
        self.lines = []
        for line in self.process.stdout:
            self.lines.append(line.rstrip())
            if self.lines[-1] == "ready":
                break

    @property
    def port(self) -> int:
        """Where it listens on TCP."""
        (line,) = [line for line in self.lines if line.startswith("listening")]
        return int(line.rpartition(":")[2])

    def stop(self) -> tuple[int, str]:
        """End it as an operator does; exit status and what it said on standard error."""
        self.process.terminate()
        _, errors = self.process.communicate(timeout=60)
        return self.process.returncode, errors


def main() -> int:
    """``wharfinger`` with the local engine replaced."""
    assembly.ENGINES["local"] = lambda directory, options: MemoryEngine()
    return command()


if __name__ == "__main__":
    sys.exit(main())
