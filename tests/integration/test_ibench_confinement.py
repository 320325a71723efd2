"""A source of a cache reaches its own level and none behind it: its addresses, replayed.

Alone each footprint fits its level, so an access that is meant for a level misses those above and
is held there; what the level behind gets are that level's misses. Valgrind's cachegrind simulates
caches of its own, so it checks the model.
"""

import json
import os
import re
import shutil
import subprocess

import pytest

from wharfinger.host.binaries import ibench_path
from wharfinger.ibench.sources import SourceSetting, signal_here, source_named
from wharfinger.ibench.tracing import TRACED, Traced, confinement_of, hardware_here

pytestmark = [
    pytest.mark.long,
    pytest.mark.alone,
    pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed"),
]

EVENTS = 600_000
"""Of the longest trace."""
CASES = [*TRACED, Traced("l2-cache", ("data", 1), 10, effort=0.4)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.name}-{case.intensity}")
def test_it_reaches_its_own_level_and_none_behind(case: Traced):
    here = signal_here(SourceSetting(source_named(case.name)))
    if not here.there:
        pytest.skip(here.reason)
    told = confinement_of(case, EVENTS)
    print(case.name, told)  # for whoever looks
    assert told.is_confined, told


@pytest.mark.parametrize(
    ("name", "intensity", "event", "of"),
    [
        ("l1-instruction-cache", 90, "I1", "L1 instructions"),
        ("l1-data-cache", 90, "D1", "L1 data"),
        ("l2-cache", 80, "D1", "L1 data"),
    ],
)
def test_cachegrind_counts_as_many_misses(name: str, intensity: int, event: str, of: str):
    signal = signal_here(SourceSetting(source_named(name)))
    if not signal.there:
        pytest.skip(signal.reason)
    case = next(each for each in TRACED if each.name == name)
    model = {level.name: level for level in confinement_of(case, EVENTS).levels}
    counted = cachegrind(name, intensity, event)
    assert counted == pytest.approx(model[of].misses, rel=0.25, abs=0.02)


def cachegrind(name: str, intensity: int, event: str) -> float:
    """Misses for each operation, those of the start included."""
    model = hardware_here()
    first, data, last = (
        f"{level.size_bytes},{level.ways},64"
        for level in (model.instructions[0], model.data[0], model.data[2])
    )
    command = [
        "valgrind", "--tool=cachegrind", "--cache-sim=yes", "--cachegrind-out-file=/dev/null",
        f"--I1={first}", f"--D1={data}", f"--LL={last}", str(ibench_path()), name,
        "--cpus", str(min(os.sched_getaffinity(0))), "--intensity", str(intensity),
        "--seconds", "3",
    ]  # fmt: skip
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None and child.stderr is not None
        lines, simulated = child.stdout.read().splitlines(), child.stderr.read()
    found = re.search(rf"{event} +misses: +([\d,]+)", simulated)
    assert found is not None, simulated
    return int(found[1].replace(",", "")) / json.loads(lines[-1])["count"]
