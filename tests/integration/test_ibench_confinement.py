"""A source of a cache reaches its own level and none behind it: its addresses, replayed.

Alone each footprint fits its level, so an access that is meant for a level misses those above and
is held there; what the level behind gets are that level's misses. Cachegrind simulates caches of
its own, so it checks the model.
"""

import json
import os
import re
import shutil
import subprocess

import pytest

from wharfinger.host.binaries import ibench_path
from wharfinger.ibench.confinement import CacheLevel
from wharfinger.ibench.sources import SourceSetting, signal_here, source_named
from wharfinger.ibench.tracing import TRACED, Traced, confinement_of, hardware_here

pytestmark = [
    pytest.mark.long,
    pytest.mark.alone,
    pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed"),
]

EVENTS = 400_000
"""Of the longest trace."""


@pytest.mark.parametrize("case", TRACED, ids=lambda case: f"{case.name}-{case.intensity}")
def test_it_reaches_its_own_level_and_none_behind(case: Traced):
    here = signal_here(SourceSetting(source_named(case.name)))
    if not here.there:
        pytest.skip(here.reason)
    told = confinement_of(case, EVENTS)
    print(case.name, told)  # for whoever looks
    assert told.is_confined, told


@pytest.mark.parametrize(
    ("name", "taken", "sent_on", "last"),
    [
        ("l1-instruction-cache", r"I +refs", r"I1 +misses", 2),
        ("prefetcher", r"I +refs", r"I1 +misses", 2),
        ("l1-data-cache", r"D +refs", r"D1 +misses", 2),
        # Cachegrind has two levels: its last is the one that is meant.
        ("l2-cache", r"D1 +misses", r"LLd +misses", 1),
        ("last-level-cache", r"D1 +misses", r"LLd +misses", 2),
    ],
)
def test_cachegrind_says_the_same(name: str, taken: str, sent_on: str, last: int):
    signal = signal_here(SourceSetting(source_named(name)))
    if not signal.there:
        pytest.skip(signal.reason)
    case = next(each for each in TRACED if each.name == name)
    # Misses of the start are among them, and on a slow machine it takes longer to outweigh them.
    for seconds in (3, 12, 48):
        simulated, operations = cachegrind(case, last, seconds)
        print(name, operations, simulated)  # for whoever looks
        if counted(taken, simulated) >= 10 * counted(sent_on, simulated):
            break
    assert counted(taken, simulated) >= 10 * counted(sent_on, simulated)
    assert counted(taken, simulated) > operations / 2


def counted(event: str, simulated: str) -> int:
    found = re.search(rf"{event}: +([\d,]+)", simulated)
    assert found is not None, simulated
    return int(found[1].replace(",", ""))


def sets_for(level: CacheLevel) -> int:
    """As many as cachegrind takes: a power of two, so that the level holds no less."""
    return 1 << (level.size_bytes // level.ways // 64 - 1).bit_length()


def cachegrind(case: Traced, last: int, seconds: int) -> tuple[str, int]:
    """What it says, and operations."""
    model = hardware_here()
    levels = [model.instructions[0], model.data[0], model.data[last]]
    sizes = [f"{sets_for(level) * level.ways * 64},{level.ways},64" for level in levels]
    command = ["valgrind", "--tool=cachegrind", "--cache-sim=yes"]
    command += ["--cachegrind-out-file=/dev/null"]
    command += [
        f"--{option}={size}" for option, size in zip(("I1", "D1", "LL"), sizes, strict=True)
    ]
    command += [str(ibench_path()), case.name, "--cpus", str(min(os.sched_getaffinity(0)))]
    command += ["--intensity", str(case.intensity), "--seconds", str(seconds)]
    if case.footprint is not None:
        command += ["--footprint", str(case.footprint)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None and child.stderr is not None
        lines, simulated = child.stdout.read().splitlines(), child.stderr.read()
    return simulated, json.loads(lines[-1])["count"]
