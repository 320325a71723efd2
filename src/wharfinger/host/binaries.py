"""Where the programs that are compiled with wharfinger are installed."""

from pathlib import Path

from wharfinger import native

_FOLDER = Path(native.__file__).parent


def supervisor_path() -> Path:
    """The supervisor, ``native/supervisor``."""
    return _FOLDER / "wharfinger-supervisor"


def ibench_path() -> Path:
    """The sources of interference, ``native/ibench``."""
    return _FOLDER / "wharfinger-ibench"
