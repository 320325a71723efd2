"""From a clone to the first predicted placement of one's own redis, by the README's commands alone.

    python -m benchmarks.first_placement

The sections "Install" and "Your own service", with the manager's start between them, in a fresh
copy of this tree without an environment. The aim is 3 minutes on an idle
machine, with what pip downloads.
"""

import re
import sys
import tempfile
import time
from pathlib import Path

from benchmarks._harness import arguments, report
from tests.support.documents import (
    ROOT,
    UNTIL_IT_ANSWERS,
    Shell,
    fresh_copy,
    not_installed,
    shown_commands,
    stop_all,
)

LAST = "wharfinger explain redis"


def commands() -> list[str]:
    """What a reader types who wants to see redis placed."""
    page = (ROOT / "README.md").read_text()
    sections = dict(re.findall(r"^## (.+)\n((?:(?!## ).*\n)*)", page, re.MULTILINE))
    begin, _, service = (
        [shown.command for shown in shown_commands(sections[name])]
        for name in ("Install", "First steps", "Your own service")
    )
    last = next(i for i, command in enumerate(service) if command.startswith(LAST))
    typed = [command for command in service[: last + 1] if not command.startswith("apt-get")]
    return [*begin, "wharfinger up &", UNTIL_IT_ANSWERS, *typed]


def main() -> int:
    """Type them; 1 where one fails or nothing was predicted."""
    options = arguments(__doc__.partition("\n")[0])
    results, printed = [], ""
    with tempfile.TemporaryDirectory() as directory:
        tree, home = fresh_copy(Path(directory))
        shell = Shell(tree, {"HOME": str(home), **not_installed()})
        try:
            for command in commands():
                began = time.monotonic()
                status, printed = shell.run(command, timeout_seconds=900)
                seconds = round(time.monotonic() - began, 1)
                results.append({"command": command, "status": status, "seconds": seconds})
        finally:
            stop_all(home)
            shell.close()
    predicted = re.search(r"^Predicted: +(.*\d.*)$", printed, re.MULTILINE)
    total = {
        "seconds_together": round(sum(float(one["seconds"]) for one in results), 1),
        "predicted": predicted[1] if predicted else None,
    }
    report("first_placement", options, [*results, total])
    return 0 if predicted and not any(one["status"] for one in results) else 1


if __name__ == "__main__":
    sys.exit(main())
