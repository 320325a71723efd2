"""A source of a cache reaches its own level and none behind it: its addresses, replayed.

Alone each footprint fits its level, so an access that is meant for a level misses those above and
is held there; what the level behind gets are that level's misses.
"""

import os
import re
import shutil
import subprocess
from collections import deque
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import pytest

from wharfinger.host.binaries import ibench_path
from wharfinger.ibench.confinement import PAGE_BYTES, CacheLevel, CacheModel, replay
from wharfinger.ibench.sources import SourceSetting, signal_here, source_named

pytestmark = [pytest.mark.long, pytest.mark.alone]

EVENTS = 2_000_000
"""The last so many of a trace are replayed, half of them to fill the caches."""
KIB, MIB = 1 << 10, 1 << 20
ENTRIES = 1024
CACHES = Path("/sys/devices/system/cpu/cpu0/cache")


@dataclass(frozen=True, slots=True)
class Case:
    """A source, of what size, and the lists of levels in which its own has that place."""

    name: str
    intensity: int
    of: str
    own: int
    footprint: int | None = None

    def __str__(self) -> str:
        return f"{self.name}-{self.intensity}"


CASES = [
    Case("l1-instruction-cache", 90, "instructions", 0),
    Case("prefetcher", 100, "instructions", 0),
    Case("l1-data-cache", 90, "data", 0),
    Case("l2-cache", 10, "data", 1),
    Case("l2-cache", 80, "data", 1),
    Case("l2-bandwidth", 100, "data", 1),
    Case("last-level-cache", 25, "data", 2, 2 * MIB),
    Case("last-level-cache", 100, "data", 2, 2 * MIB),
    Case("last-level-cache-bandwidth", 100, "data", 2, 4 * MIB),
    Case("tlb", 100, "translations", 1, ENTRIES * PAGE_BYTES),
]


def size_here(index: int) -> int:
    """Of the caches that the sources themselves look at."""
    text = (CACHES / f"index{index}" / "size").read_text().strip()
    return int(text.removesuffix("K")) * KIB


def hardware() -> CacheModel:
    l2, last = CacheLevel(size_here(2), 8), CacheLevel(32 * MIB, 16)
    translations = [
        CacheLevel(64 * PAGE_BYTES, 64, PAGE_BYTES),
        CacheLevel(ENTRIES * 2 * PAGE_BYTES, 8, PAGE_BYTES),
    ]
    return CacheModel(
        [CacheLevel(size_here(1), 8), l2, last],
        [CacheLevel(size_here(0), 8), l2, last],
        translations,
    )


def traced(case: Case) -> tuple[list[str], range]:
    """The end of its trace, and the pages that are one."""
    command = ["valgrind", "--tool=lackey", "--trace-mem=yes", "--log-fd=1"]
    command += [str(ibench_path()), case.name, "--cpus", str(min(os.sched_getaffinity(0)))]
    command += ["--intensity", str(case.intensity), "--seconds", "2", "--report", "/dev/null"]
    if case.footprint is not None:
        command += ["--footprint", str(case.footprint)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        last: deque[str] = deque(maxlen=EVENTS)
        pages = range(0)
        while block := list(islice(child.stdout, 100_000)):
            last.extend(block)
            pages = same_pages(child.pid) or pages
    return list(last), pages


def same_pages(pid: int) -> range:
    try:
        maps = Path(f"/proc/{pid}/maps").read_text()
    except OSError:
        return range(0)
    found = re.findall(r"^(\w+)-(\w+) .*/memfd:wharfinger-ibench", maps, re.MULTILINE)
    if not found:
        return range(0)
    return range(int(found[0][0], 16), int(found[-1][1], 16))


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed")
@pytest.mark.parametrize("case", CASES, ids=str)
def test_it_reaches_its_own_level_and_none_behind(case: Case):
    here = signal_here(SourceSetting(source_named(case.name)))
    if not here.there or not (CACHES / "index2" / "size").exists():
        pytest.skip(here.reason or "the kernel tells no sizes")
    trace, pages = traced(case)
    model = hardware()
    replay(trace[: len(trace) // 2], model, pages)
    model.forget_counts()
    replay(trace[len(trace) // 2 :], model, pages)
    told = {
        of: [(level.accesses, level.misses, level.cold) for level in getattr(model, of)]
        for of in ("instructions", "data", "translations")
    }
    print(case, told)  # for whoever looks
    own = getattr(model, case.of)[case.own]
    assert own.accesses > 10_000, told
    assert own.accesses >= 10 * (own.misses - own.cold), told
