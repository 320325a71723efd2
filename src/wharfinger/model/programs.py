"""What a command is a run of, as models that are fitted to programs name it."""

from collections.abc import Sequence

from wharfinger.model.workload import Workload

INTERPRETERS = frozenset({"sh", "bash", "dash", "env", "python", "perl", "ruby", "node", "java"})
PROGRAM_LABEL = "program"
"""Of a workload whose command does not tell what it runs."""


def program_of(command: Sequence[str]) -> str:
    """What a command is a run of: its program, or the script that an interpreter is given.

    >>> program_of(["/usr/bin/python3", "-u", "/srv/train.py", "--epochs", "3"])
    'train.py'
    >>> program_of(["gzip", "-9", "file"])
    'gzip'
    """
    name = _last(command[0])
    if name.rstrip("0123456789.") not in INTERPRETERS:
        return name
    for word in command[1:]:
        if word == "-c":
            return name  # What follows is the program itself, and is left out.
        if not word.startswith("-") and "=" not in word:
            return _last(word)
    return name


def program_name(workload: Workload) -> str:
    """The label ``program`` of a workload, else what its command runs."""
    return workload.labels.get(PROGRAM_LABEL) or program_of(workload.run.command)


def _last(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]
