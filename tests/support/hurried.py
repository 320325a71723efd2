"""A real manager that hurries, or has no cgroups: run as ``python -c``, with one JSON object first.

``LiveManager`` hands its source over, so that it runs for users who can't read this folder. What
it was told, by key:

    report_seconds  how often the engine tells what it measured
    hastened_seconds  how often it reads what runs while sources rise
    nothing         a file that is empty: where cgroups are looked for, and not found
    cap_bytes       what a profiling copy may write

Everything after it is the command line of wharfinger.
"""

import json
import sys
from functools import partial
from pathlib import Path


def hurry(
    report_seconds: float | None = None,
    hastened_seconds: float | None = None,
    nothing: str | None = None,
    cap_bytes: int | None = None,
) -> None:
    """Change the modules of this process; what is not named stays as it is."""
    from wharfinger.engines.local import engine  # noqa: PLC0415 - only in the manager's process
    from wharfinger.engines.local.profiling import client  # noqa: PLC0415 - the same

    told = {"report_seconds": report_seconds, "hastened_seconds": hastened_seconds}
    seconds = {name: value for name, value in told.items() if value is not None}
    if seconds:
        hurried = partial(engine.LocalEngine, **seconds)
        setattr(engine, "LocalEngine", hurried)  # noqa: B010 - a class is not assigned to
    if nothing is not None:
        nowhere = Path(nothing)
        found = partial(engine.discover, cgroup_file=nowhere, mountinfo_file=nowhere)
        setattr(engine, "discover", found)  # noqa: B010 - a function is not assigned to
    if cap_bytes is not None:
        client.CAP_BYTES = cap_bytes


if __name__ == "__main__":
    from wharfinger.cli.main import main

    hurry(**json.loads(sys.argv[1]))
    sys.exit(main(sys.argv[2:]))
