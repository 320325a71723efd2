"""Runs a source under valgrind's lackey, and tells which levels its accesses reach.

Called by the validation and by the tests of the sources; the model that replays the addresses is
``confinement``. Sizes are this machine's where the kernel tells them, the last level's at most 32
MiB; footprints of the last level are small, so that a trace fills them.
"""

import json
import os
import re
import shutil
import subprocess
import threading
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from wharfinger.host.binaries import ibench_path
from wharfinger.ibench.confinement import PAGE_BYTES, CacheLevel, CacheModel, replay

INSTALL_VALGRIND = "valgrind is not installed; install it by: sudo apt-get install valgrind"
ENTRIES = 1024
"""Of the translation buffer that the source fills here; the model's has twice as many."""
LEAST_TAKEN_PER_SENT_ON = 10.0
LEAST_EVENTS = 120_000
"""Of a trace: fewer may be of a rest between two turns."""
KIB, MIB = 1 << 10, 1 << 20
_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_USUAL = {"1I": (32 * KIB, 8), "1D": (32 * KIB, 8), "2U": (512 * KIB, 8)}
"""Bytes and ways, where the kernel does not tell them."""
_LAST = (32 * MIB, 16)
_REPORT_SECONDS = 0.1
_TRACED_SECONDS = 60.0
"""At most: it is ended when it has done enough."""
_BLOCK_LINES = 20_000


@dataclass(frozen=True, slots=True)
class Traced:
    """How a source is traced.

    ``own`` is its level: which of the model's lists, and the place in it. ``None``: the source
    works in registers, and reaches no level but the first.
    """

    name: str
    own: tuple[str, int] | None = None
    intensity: int = 100
    footprint: int | None = None
    effort: float = 0.1
    """Of the events of the longest trace: what fills the caches."""


TRACED = (
    Traced("integer"),
    Traced("floating-point"),
    Traced("vector"),
    Traced("l1-instruction-cache", ("instructions", 0), 90),
    Traced("prefetcher", ("instructions", 0)),
    Traced("l1-data-cache", ("data", 0), 90),
    Traced("l2-cache", ("data", 1), 80, effort=1.0),
    Traced("l2-bandwidth", ("data", 1), effort=0.4),
    Traced("last-level-cache", ("data", 2), 100, 1 * MIB, 1.0),
    Traced("last-level-cache-bandwidth", ("data", 2), 100, 4 * MIB, 1.0),
    Traced("tlb", ("translations", 1), 100, ENTRIES * PAGE_BYTES),
)
NOT_TRACED = {
    "memory-capacity": "memory lies behind all caches: its footprint is the pressure",
    "memory-bandwidth": "memory lies behind all caches, and its footprint is many times the last",
    "storage-capacity": "it works on a file system, past the caches",
    "storage-bandwidth": "it works on a device, past the caches",
    "network-bandwidth": "it works in the kernel, which valgrind does not see",
    "interconnect": "a trace has one thread at a time, and lines do not move between cores in it",
}
_NAMES = {
    "instructions": ("L1 instructions", "L2", "last level"),
    "data": ("L1 data", "L2", "last level"),
    "translations": ("L1 translations", "L2 translations"),
}


@dataclass(frozen=True, slots=True)
class LevelUse:
    """Of one level, for each of the source's operations."""

    name: str
    accesses: float
    misses: float
    first_misses: float


@dataclass(frozen=True, slots=True)
class Confinement:
    """Where a source's accesses end, or the ``reason`` why that is not told.

    ``taken_per_sent_on``: accesses that reached its own level, for each that this sent on, both
    without those to what it never held before; ``None`` = none was sent on.
    """

    reason: str = ""
    own: str = ""
    levels: tuple[LevelUse, ...] = ()
    taken_per_sent_on: float | None = None
    why_not: str = ""

    @property
    def is_confined(self) -> bool | None:
        """``None`` = not told."""
        return None if self.reason else not self.why_not


def hardware_here() -> CacheModel:
    """This machine's first and second level, as far as the kernel tells; a last level of 32 MiB."""
    here = _caches_here()
    l2, last = CacheLevel(*here["2U"]), CacheLevel(*_LAST)
    return CacheModel(
        [CacheLevel(*here["1I"]), l2, last],
        [CacheLevel(*here["1D"]), l2, last],
        [
            CacheLevel(64 * PAGE_BYTES, 64, PAGE_BYTES),
            CacheLevel(ENTRIES * 2 * PAGE_BYTES, 8, PAGE_BYTES),
        ],
    )


def _caches_here() -> Mapping[str, tuple[int, int]]:
    found: dict[str, tuple[int, int]] = {}
    for index in sorted(_CACHES.glob("index*")):
        with suppress(OSError, ValueError):
            level, kind, size = (
                (index / name).read_text().strip() for name in ("level", "type", "size")
            )
            name = level + kind[0]
            # Some virtual machines do not tell the ways, or say 0.
            ways = _USUAL.get(name, _LAST)[1]
            with suppress(OSError, ValueError):
                ways = int((index / "ways_of_associativity").read_text()) or ways
            found[name] = (int(size.removesuffix("K")) * KIB, ways)
    if "3U" not in found:
        # Its second level is its last one, which the sources of the last level work on.
        found.pop("2U", None)
    return {**_USUAL, **found}


def confinement_of(traced: Traced, events: int) -> Confinement:
    """Trace the source and replay the end of it, half of that to fill the caches.

    ``events`` are those of the source with the largest footprint.
    """
    if shutil.which("valgrind") is None:
        return Confinement(INSTALL_VALGRIND)
    # Behind a large second level a round through the footprint is as much longer.
    behind_first = traced.own is not None and traced.own[0] == "data" and traced.own[1] > 0
    rounds = max(1, _caches_here()["2U"][0] // MIB) if behind_first else 1
    trace = _Trace(traced, max(LEAST_EVENTS, int(events * traced.effort * rounds)))
    model = hardware_here()
    half = len(trace.lines) // 2
    replay(trace.lines[:half], model, trace.same_page)
    model.forget_counts()
    replay(trace.lines[half:], model, trace.same_page)
    operations = trace.operations_per_line * (len(trace.lines) - half)
    if not operations:
        return Confinement(f"no operation was traced: {trace.said or 'valgrind said nothing'}")
    return judged(traced, model, operations)


def judged(traced: Traced, model: CacheModel, operations: float) -> Confinement:
    """What the model counted for so many operations, and whether the source kept to its level."""
    levels = {
        name: level
        for of, names in _NAMES.items()
        for name, level in zip(names, getattr(model, of), strict=True)
    }
    used = tuple(
        LevelUse(
            name, level.accesses / operations, level.misses / operations, level.cold / operations
        )
        for name, level in levels.items()
    )
    if traced.own is None:
        sent = levels["L1 data"].misses + levels["L1 instructions"].misses
        first = levels["L1 data"].cold + levels["L1 instructions"].cold
        share = (sent - first) / operations
        why = f"it misses the first level {share:.3f} times an operation" if share > 0.01 else ""
        return Confinement(levels=used, own="registers", why_not=why)
    of, place = traced.own
    own = getattr(model, of)[place]
    taken, sent_on = own.accesses - own.cold, own.misses - own.cold
    ratio = taken / sent_on if sent_on else None
    why_not = ""
    if taken < LEAST_TAKEN_PER_SENT_ON <= own.accesses:
        return Confinement("the trace is too short for caches of these sizes")
    if taken < LEAST_TAKEN_PER_SENT_ON:
        why_not = f"{taken} accesses reached its level, but for first ones"
    elif ratio is not None and ratio < LEAST_TAKEN_PER_SENT_ON:
        why_not = f"its level sends on one access in {ratio:.1f}"
    return Confinement(own=_NAMES[of][place], levels=used, taken_per_sent_on=ratio, why_not=why_not)


class _Trace:
    """The end of a source's trace. It runs until it has printed twice the events, and is ended."""

    def __init__(self, traced: Traced, events: int) -> None:
        self.lines: list[str] = []
        self.same_page = range(0)
        self.operations_per_line = 0.0
        self.said = ""
        self._read_lines = 0
        self._reports: list[tuple[int, int]] = []
        self._run(traced, events)

    def _run(self, traced: Traced, events: int) -> None:
        told, tells = os.pipe()
        command = ["valgrind", "--tool=lackey", "--trace-mem=yes", "--log-fd=1"]
        command += [str(ibench_path()), traced.name, "--cpus", str(min(os.sched_getaffinity(0)))]
        command += ["--intensity", str(traced.intensity), "--seconds", str(_TRACED_SECONDS)]
        command += ["--report-seconds", str(_REPORT_SECONDS), "--report", f"/proc/self/fd/{tells}"]
        if traced.footprint is not None:
            command += ["--footprint", str(traced.footprint)]
        with subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            pass_fds=[tells],
        ) as child:
            os.close(tells)
            reader = threading.Thread(target=self._take_reports, args=(told,))
            reader.start()
            try:
                self._take_lines(child, events)
            finally:
                child.kill()
                reader.join()
            assert child.stderr is not None
            self.said = (child.stderr.read().strip().splitlines() or [""])[-1]
        self._count_operations()

    def _take_lines(self, child: "subprocess.Popen[str]", events: int) -> None:
        assert child.stdout is not None
        last: deque[str] = deque(maxlen=events)
        begun = 0
        while block := list(islice(child.stdout, _BLOCK_LINES)):
            last.extend(block)
            self._read_lines += len(block)
            self.same_page = _same_pages(child.pid) or self.same_page
            if not self._reports:
                begun = self._read_lines
            # From the first report on: what was before is preparation.
            elif self._read_lines - begun >= events + events // 4 and len(self._reports) > 1:
                break
        self.lines = list(last)

    def _take_reports(self, descriptor: int) -> None:
        with os.fdopen(descriptor) as reports:
            for line in reports:
                told = json.loads(line)
                if told["event"] == "report":
                    self._reports.append((self._read_lines, told["count"]))

    def _count_operations(self) -> None:
        if len(self._reports) > 1:
            (lines, count), (more_lines, more) = self._reports[0], self._reports[-1]
            self.operations_per_line = (more - count) / max(1, more_lines - lines)


def _same_pages(pid: int) -> range:
    """The pages that a translation source maps onto one."""
    try:
        maps = Path(f"/proc/{pid}/maps").read_text()
    except OSError:
        return range(0)
    found = re.findall(r"^(\w+)-(\w+) .*/memfd:wharfinger-ibench", maps, re.MULTILINE)
    if not found:
        return range(0)
    return range(int(found[0][0], 16), int(found[-1][1], 16))
