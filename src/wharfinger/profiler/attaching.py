"""A workload of the manager on this machine, as a process to profile.

The manager tells its process and its manifest; it goes on as if nothing were there. Its output, and
that of its load generator, are read where the manager reads them.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wharfinger.engines.supervised.loads import prefix_of
from wharfinger.errors import InvalidInput
from wharfinger.host.processes import KEY_VARIABLE
from wharfinger.profiler.measuring import Section, section_of


@dataclass(frozen=True, slots=True)
class AttachedWorkload:
    """Where it runs and how it is measured; ``measure`` and ``beside`` as ``section_of``."""

    name: str
    pid: int
    run_dir: Path
    load_runs: Path
    measure: Section
    beside: Section


def attached(told: Mapping[str, Any], runs: Path) -> AttachedWorkload:
    """What the manager told of a workload, found here; ``runs`` is its directory of runs.

    Raises ``InvalidInput``.
    """
    name, place = told["name"], f"--attach: {told['name']!r}"
    kind, _, number = str(told["handle"]).partition(" ")
    if not told["placements"] or not number:
        raise InvalidInput(f"{place} does not run ({told['phase']}); name a workload that does")
    if kind != "pid" or not number.isdecimal():
        mend = "profile it where it runs, or its command"
        raise InvalidInput(
            f"{place} runs as {told['handle']!r}, no process of this machine; {mend}"
        )
    key = _key_of(int(number), place)
    if not (runs / key).is_dir():
        mend = "give --state of the manager that runs it here"
        raise InvalidInput(f"{place}: {runs} knows no run {key!r}; {mend}")
    measure, beside = section_of(told["manifest"])
    return AttachedWorkload(name, int(number), runs / key, prefix_of(runs, key), measure, beside)


def _key_of(pid: int, place: str) -> str:
    try:
        lines = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError as error:
        mend = "profile it as its user or as root" if os.geteuid() else "see `wharfinger get`"
        raise InvalidInput(f"{place}: process {pid}: {error.strerror}; {mend}") from None
    variables = dict(line.split(b"=", 1) for line in lines if b"=" in line)
    key = variables.get(KEY_VARIABLE.encode())
    if key is None:
        raise InvalidInput(f"{place}: process {pid} is not the manager's; see `wharfinger get`")
    return os.fsdecode(key)
