"""Sources of interference and the profiler: how fast, how light, how right.

Times of intensity changes, of profiles and of pairs, the profiler's own CPU, and repeats: whether
real programs with an engineered bottleneck order intensities rightly, whether programs that share
nothing with a source show a false signal, and how far tolerated scores of one program are apart.

Run it with: python -m benchmarks.ibench [--only change,pair] [--rounds 20] [--cpus 0]
"""

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from benchmarks._harness import parser, report
from wharfinger.ibench.driver import measure_maximum, start
from wharfinger.ibench.pairing import MAX_EXACT, Scores, share
from wharfinger.ibench.sources import SOURCES, SourceSetting, signal_here, source_named
from wharfinger.profiler.measuring import workload_of
from wharfinger.profiler.session import REPORT_SECONDS, CommandSession, settings_here
from wharfinger.profiling.curves import Verdict
from wharfinger.profiling.rounds import Calibrations, InterferenceProfile, Profiler

Found = dict[str, Any]
CHANGES = 200
FIVE = ("integer", "memory-bandwidth", "last-level-cache", "l2-cache", "storage-bandwidth")
TOLERANCE = 0.05
NOISE = 0.03
ORDERED = (0.0, 20.0, 50.0, 100.0)
READ_SECONDS = 1.0
WITHIN_POINTS = 8.0

NOISY = f"""
import random, time
done, drawn = 0, random.Random(1)
while True:
    for _ in range(max(1, round(40 * drawn.gauss(1, {NOISE})))):
        sum(range(2000))
    done += 1
    print(f"done={{done}}", flush=True)
"""
SLEEPER = """
import time
done = 0
while True:
    time.sleep(0.005)
    done += 1
    print(f"done={done}", flush=True)
"""
CACHE_BOUND = """
import array
done, cells = 0, array.array("q", range(1 << 15))
while True:
    sum(cells)
    done += 1
    print(f"done={done}", flush=True)
"""
READER = """
import os, sys, mmap, random
path, size = sys.argv[1], 64 << 20
handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_DIRECT, 0o600)
os.posix_fallocate(handle, 0, size)
page, done = mmap.mmap(-1, 1 << 18), 0
while True:
    os.preadv(handle, [page], (random.randrange(size) >> 18) << 18)
    done += 1
    print(f"done={done}", flush=True)
"""
SENDER = """
import socket, sys
link = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
done, piece = 0, bytes(1 << 16)
while True:
    link.sendall(piece)
    done += 1
    print(f"done={done}", flush=True)
"""


def python(code: str, *words: str) -> list[str]:
    return [sys.executable, "-c", code, *words]


def setting_of(name: str, cpus: Sequence[int], place: Path) -> SourceSetting:
    return SourceSetting(source_named(name), tuple(cpus), place, report_seconds=REPORT_SECONDS)


def profiled(
    command: Sequence[str],
    names: Sequence[str],
    seconds: float,
    place: Path,
    *,
    cpus: Sequence[int],
    source_cpus: Sequence[int] | None = None,
    calibrations: Calibrations | None = None,
) -> InterferenceProfile:
    """As ``wharfinger profile`` does it; ``source_cpus``: of the sources, if not the program's."""
    measure = {"progress": {"regex": "done=([0-9]+)"}}
    workload = workload_of(command, measure, {}, "the benchmark")
    base = setting_of(names[0], source_cpus or cpus, place)
    sources = [source_named(name) for name in names]
    settings, _ = settings_here(sources, base, lambda _: None)
    session = CommandSession(command, workload, settings, cpus=tuple(cpus))
    chosen = [source for source in sources if source.resource in settings]
    try:
        return Profiler(
            session, chosen, tolerance=TOLERANCE, seconds=seconds, cpus=len(cpus),
            tell=lambda _: None, calibrations=calibrations,
        ).profile()  # fmt: skip
    finally:
        session.close()


# --- parts --------------------------------------------------------------------------------------


def change(given: argparse.Namespace, place: Path) -> Found:
    """From asking for an intensity until it is in force."""
    drawn, took = Random(given.seed), []
    with start(setting_of("integer", given.cpus, place)) as source:
        for _ in range(CHANGES):
            asked = time.monotonic()
            took.append(1000 * (source.set_intensity(drawn.uniform(0, 60)) - asked))
            time.sleep(0.005)
    p50, p99 = np.quantile(took, [0.5, 0.99])
    return {"p50_ms": float(p50), "p99_ms": float(p99), "changes": CHANGES}


def own_cpu(given: argparse.Namespace, place: Path) -> Found:
    """CPU time of the profiler itself, of the seconds that a profile took."""
    before = resource.getrusage(resource.RUSAGE_SELF)
    began = time.monotonic()
    profiled(python(NOISY), FIVE[:2], 30.0, place, cpus=given.cpus)
    after = resource.getrusage(resource.RUSAGE_SELF)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"percent_of_a_cpu": 100 * used / (time.monotonic() - began)}


def _timed(names: Sequence[str], limit: float, given: argparse.Namespace, place: Path) -> Found:
    began = time.monotonic()
    profile = profiled(python(NOISY), names, limit, place, cpus=given.cpus)
    told = {str(each): found.verdict.value for each, found in profile.found.items()}
    seconds = time.monotonic() - began
    return {"seconds": seconds, "rounds": profile.rounds, "noise": NOISE, "verdicts": told}


def five(given: argparse.Namespace, place: Path) -> Found:
    """Five sources of a program with noise."""
    return _timed(FIVE, 60.0, given, place)


def every(given: argparse.Namespace, place: Path) -> Found:
    """All sources that have a signal here."""
    settings = [setting_of(source.name, given.cpus, place) for source in SOURCES]
    names = [each.source.name for each in settings if signal_here(each).there]
    return _timed(names, 240.0, given, place)


def pair(given: argparse.Namespace, _place: Path) -> Found:
    """Exactly, for as many programs as that is done for."""
    took, drawn = [], Random(given.seed)
    for _ in range(given.rounds):
        names = [source.name for source in SOURCES]
        rows = [[{name: drawn.uniform(0, 100) for name in names} for _ in "tc"] for _ in range(16)]
        mix = [Scores(f"p{n}", tolerated, caused) for n, (tolerated, caused) in enumerate(rows)]
        began = time.perf_counter()
        assert share(mix, MAX_EXACT // 2).exact
        took.append(time.perf_counter() - began)
    return {"median_seconds": statistics.median(took), "max_seconds": max(took)}


def order(given: argparse.Namespace, place: Path) -> Found:
    """How often a program's rates beside rising intensities fall as they rise."""
    cases: dict[str, tuple[str, list[str], tuple[float, ...]]] = {
        # A fair scheduler gives either no less than half, so that more is the same.
        "same core": ("integer", python(NOISY), (0.0, 10.0, 25.0, 50.0)),
        "block device": ("storage-bandwidth", python(READER, str(place / "read")), ORDERED),
    }
    found: Found = {}
    for case, (name, command, intensities) in cases.items():
        found[case] = _ordered(setting_of(name, given.cpus, place), command, intensities, given)
    with _link() as (port, why):
        if why:
            found["link"] = {"skipped": why}
        else:
            setting = setting_of("network-bandwidth", given.cpus, place)
            found["link"] = _ordered(setting, python(SENDER, str(port)), ORDERED, given)
    return found


def _ordered(
    setting: SourceSetting,
    command: list[str],
    intensities: Sequence[float],
    given: argparse.Namespace,
) -> Found:
    signal = signal_here(setting)
    if not signal.there:
        return {"skipped": signal.reason}
    right, lowest = 0, []
    words = ["taskset", "-c", ",".join(map(str, given.cpus)), *command]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        os.set_blocking(program.stdout.fileno(), False)
        try:
            with start(measure_maximum(setting)) as source:
                time.sleep(1.0)
                for _ in range(given.rounds):
                    rates = [_rate(source.set_intensity, at, program) for at in intensities]
                    right += rates == sorted(rates, reverse=True)
                    lowest.append(rates[-1] / rates[0] if rates[0] else 0.0)
        finally:
            program.kill()
    kept = statistics.median(lowest)
    return {"right": right, "of": given.rounds, "kept_at_most": kept}


def _rate(
    inject: Callable[[float], float], intensity: float, program: subprocess.Popen[str]
) -> float:
    """Lines a second beside that intensity."""
    inject(intensity)
    time.sleep(0.1)
    _lines(program)
    began = time.monotonic()
    time.sleep(READ_SECONDS)
    return _lines(program) / (time.monotonic() - began)


def _lines(program: subprocess.Popen[str]) -> int:
    assert program.stdout is not None
    count = 0
    while True:
        try:
            piece = os.read(program.stdout.fileno(), 1 << 16)
        except BlockingIOError:
            return count
        if not piece:
            return count
        count += piece.count(b"\n")


@contextmanager
def _link() -> Iterator[tuple[int, str]]:
    """A sink on loopback, which is shaped meanwhile; or why it can't be."""
    if shutil.which("tc") is None:
        yield 0, "there is no tc to shape a link with"
        return
    shape = ["tc", "qdisc", "add", "dev", "lo", "root", "tbf"]
    limits = ["rate", "400mbit", "burst", "256k", "latency", "20ms"]
    done = subprocess.run([*shape, *limits], capture_output=True, text=True, check=False)
    if done.returncode:
        yield 0, f"tc: {done.stderr.strip()}"
        return
    sink = (
        "import socket\ns = socket.create_server(('127.0.0.1', 0))\n"
        "print(s.getsockname()[1], flush=True)\nc, _ = s.accept()\nwhile c.recv(1 << 20): pass"
    )
    try:
        with subprocess.Popen(python(sink), stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            try:
                yield int(process.stdout.readline()), ""
            finally:
                process.kill()
    finally:
        subprocess.run(["tc", "qdisc", "del", "dev", "lo", "root"], check=False)


def false_signals(given: argparse.Namespace, place: Path) -> Found:
    """Programs on one CPU, sources on another: what is called slowed should not be."""
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) < 2:
        return {"skipped": "it needs two CPUs"}
    found: Found = {}
    for case, code in (("sleeper", SLEEPER), ("cache-bound", CACHE_BOUND)):
        calibrations: Calibrations = {}
        wrong = 0
        for _ in range(given.rounds):
            profile = profiled(
                python(code), ["integer"], 15.0, place, cpus=allowed[:1],
                source_cpus=allowed[1:2], calibrations=calibrations,
            )  # fmt: skip
            wrong += any(each.verdict is Verdict.SLOWED for each in profile.found.values())
        found[case] = {"false": wrong, "of": given.rounds}
    return found


def repeats(given: argparse.Namespace, place: Path) -> Found:
    """Tolerated scores of one program."""
    calibrations: Calibrations = {}
    scores = []
    for _ in range(given.rounds):
        profile = profiled(
            python(NOISY), ["integer"], 20.0, place, cpus=given.cpus, calibrations=calibrations
        )
        scores += [each.tolerated.value for each in profile.found.values() if each.tolerated]
    if not scores:
        return {"scores": 0, "of": given.rounds}
    middle = statistics.median(scores)
    within = sum(abs(score - middle) <= WITHIN_POINTS for score in scores) / len(scores)
    return {"scores": len(scores), "of": given.rounds, "median": middle, "within_8_points": within}


PARTS: dict[str, Callable[[argparse.Namespace, Path], Found]] = {
    "change": change,
    "own-cpu": own_cpu,
    "five": five,
    "all": every,
    "pair": pair,
    "order": order,
    "false-signals": false_signals,
    "repeats": repeats,
}
"""A further part is a function and a line here."""


def main() -> None:
    made = parser(__doc__ or "")
    made.set_defaults(rounds=20)
    names = ",".join(PARTS)
    made.add_argument("--only", default=names, help=f"parts of it (default: {names})")
    made.add_argument("--cpus", default="0", help="of programs and sources (default: 0)")
    made.add_argument("--directory", default=".", help="for I/O (default: the current one)")
    given = made.parse_args()
    given.cpus = [int(number) for number in given.cpus.split(",")]
    wanted = given.only.split(",")
    if unknown := set(wanted) - set(PARTS):
        made.error(f"--only: {', '.join(sorted(unknown))}: there are {names}")
    results = []
    with tempfile.TemporaryDirectory(dir=given.directory, prefix="ibench-") as place:
        for name in wanted:
            results.append({"part": name, **PARTS[name](given, Path(place))})
            print(f"{name}: {results[-1]}", file=sys.stderr, flush=True)
    report("ibench", given, results)


if __name__ == "__main__":
    main()
