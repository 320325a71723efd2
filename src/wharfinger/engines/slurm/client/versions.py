"""What differs between the versions of Slurm, 22.05 to current; nothing elsewhere asks for one.

Where answers of two versions differ in shape only (a number bare or wrapped, a state as a word or
as a list), ``scalars`` and ``records`` read both. Here is what has to be asked for differently.
"""

from typing import Any

from wharfinger.errors import SlurmRefused

OLDEST = (22, 5)
_SCONTROL_JSON = (23, 2)
"""Since then ``scontrol`` writes JSON, and ``sinfo --json`` groups nodes that are alike."""


def check_version(version: tuple[int, int]) -> None:
    """``SlurmRefused`` for a version that is too old."""
    if version < OLDEST:
        raise SlurmRefused(
            f"Slurm {_name(version)} is too old: use {_name(OLDEST)} or newer on the controller"
        )


def _name(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]:02d}"


def read_version(words: str) -> tuple[int, int] | None:
    """Of ``"slurm-wlm 22.05.8"``, ``"slurm 24.11.7"`` or ``"22.05.8"``."""
    parts = words.rsplit(maxsplit=1)[-1].split(".") if words.split() else []
    if len(parts) < 2 or not (parts[0].isdecimal() and parts[1].isdecimal()):
        return None
    return int(parts[0][:4]), int(parts[1][:4])


def nodes_command(version: tuple[int, int]) -> list[str]:
    """What prints every node by itself, as JSON with a list ``nodes``."""
    if version < _SCONTROL_JSON:
        return ["sinfo", "--all", "--json"]
    return ["scontrol", "--all", "--json", "show", "nodes"]


def states_of(value: Any) -> list[str]:
    """The words of a state: 22.05 has one word, 23.11 and later have a list."""
    if type(value) is str:
        return [value]
    return [word for word in value if type(word) is str] if type(value) is list else []
