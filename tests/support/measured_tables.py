"""Small measured tables on disk."""

from collections.abc import Iterable
from pathlib import Path

ISOLATED = """workload,platform,performance
a,fast,10
a,slow,4
b,fast,20
b,slow,20
c,fast,5
c,slow,0
"""
PAIRS = """platform,workload,beside,performance
fast,a,a,5
fast,a,b,8
fast,b,a,10
fast,b,b,16
fast,a,c,9
fast,c,a,4
fast,b,c,0
fast,c,b,0
fast,c,c,2.5
slow,a,a,2
slow,a,b,3
slow,b,a,15
slow,b,b,10
"""


def write_tables(
    folder: Path,
    isolated: str = ISOLATED,
    pairs: str = PAIRS,
    scale_out: str | None = None,
    groups: str | None = None,
) -> Path:
    """A directory with these tables."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in _files(isolated, pairs, scale_out, groups):
        (folder / f"{name}.csv").write_text(text)
    return folder


def _files(
    isolated: str, pairs: str, scale_out: str | None, groups: str | None
) -> Iterable[tuple[str, str]]:
    yield "isolated", isolated
    yield "pairs", pairs
    if scale_out is not None:
        yield "scale_out", scale_out
    if groups is not None:
        yield "groups", groups
