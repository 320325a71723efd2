"""A real program before and after changes of its code, by its interference profile.

Source: dissertation 5.5.3, Figure 5.8. A program for collaborative filtering, SVD and
PQ-reconstruction of 180,000 users' movie ratings, was changed in three steps, each where its
profile showed contention: SIMD, operations on the matrix in another order, intermediate results
memoised. In the end it took 35% less time, and its footprint was 49% smaller (5.1). The ratings and
the code are not public.

Here ``native/programs/filtering.c`` does that on drawn ratings, and everything is measured on this
machine: each version's whole runs, and its profile by ``wharfinger profile`` on one CPU.
Instructions per cycle and memory bandwidth, which the figure shows, need counters that are not read
here.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from wharfinger.catalog.programs.filtering import PROGRAM, VERSIONS
from wharfinger.errors import InvalidInput, Unavailable
from wharfinger.experiments import profile_plots
from wharfinger.experiments.ground_truth import GroundTruthStudy, Panels, Picture, StudyFindings
from wharfinger.profiler.comparison import Change, compare

USERS = 180_000
STEPS = 5
"""Of gradient descent in a run that is timed."""
PROFILE_SECONDS = 60.0
SOURCES = (
    "last-level-cache",
    "last-level-cache-bandwidth",
    "l2-cache",
    "l2-bandwidth",
    "l1-data-cache",
    "memory-bandwidth",
    "floating-point",
)
"""On which the original version contended."""
REGEX = "done=([0-9.]+)"
_MIB = 1024**2

Profile = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class TimedRun:
    """What a run took, with the factors that it came to, (users + items, 16)."""

    seconds: float
    cpu_seconds: float
    footprint_bytes: int
    factors: "np.ndarray[Any, np.dtype[np.float64]]"


def command(version: str, users: int, seed: int, *more: str) -> list[str]:
    """Of a version of the program."""
    return [str(PROGRAM), version, "--users", str(users), "--seed", str(seed), *more]


def run_whole(version: str, users: int, seed: int, cpu: int, steps: int = STEPS) -> TimedRun:
    """Run it once to its end, on one CPU."""
    with tempfile.TemporaryDirectory(prefix="filtering-") as folder:
        out = Path(folder, "factors")
        words = command(version, users, seed, "--total", str(steps), "--out", str(out))
        began = time.monotonic()
        process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        os.sched_setaffinity(process.pid, {cpu})
        assert process.stdout is not None
        told = process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
        seconds = time.monotonic() - began
        process.stdout.close()
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            raise Unavailable(f"{version}: it ended with {process.returncode}")
        factors = np.fromfile(out).reshape(-1, 16)
    footprint = int(told.rpartition("footprint_kib=")[2])
    return TimedRun(seconds, used.ru_utime + used.ru_stime, 1024 * footprint, factors)


def profiles_of(
    users: int, seed: int, cpu: int, sources: Sequence[str], seconds: float
) -> dict[str, Profile]:
    """Of each version, by the command; the first one's calibration of probes is that of all."""
    found: dict[str, Profile] = {}
    with tempfile.TemporaryDirectory(prefix="filtering-") as folder:
        first = Path(folder, "first.json")
        for version in VERSIONS:
            known = ("--calibration", str(first)) if first.exists() else ()
            words = command(version, users, seed)
            found[version] = _profile(version, words, cpu, sources, seconds, *known)
            if not known:
                first.write_text(json.dumps(found[version]))
    return found


def _profile(
    name: str,
    program: Sequence[str],
    cpu: int,
    sources: Sequence[str],
    seconds: float,
    *options: str,
) -> Profile:
    words = [sys.executable, "-m", "wharfinger", "profile", "-o", "json", "--name", name, *options]
    words += ["--sources", ",".join(sources), "--time-limit", f"{seconds:g}s", "--cpus", str(cpu)]
    words += ["--measure-regex", REGEX, "--", *program]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Unavailable(f"{name}: {(done.stderr.strip() or 'no profile').splitlines()[-1]}")
    document: Profile = json.loads(done.stdout)
    return document


def look(
    scale: float,
    seed: int,
    *,
    sources: Sequence[str] = SOURCES,
    seconds: float = PROFILE_SECONDS,
) -> StudyFindings:
    """All versions on the ratings of one seed; ``scale`` is of the users."""
    users = round(USERS * scale)
    if users < 1:
        raise InvalidInput(f"--scale: {scale:g} leaves no user of {USERS}; give more")
    cpu = max(os.sched_getaffinity(0))
    runs = {version: run_whole(version, users, seed, cpu) for version in VERSIONS}
    profiles = profiles_of(users, seed, cpu, sources, seconds)
    numbers = dict(_of_runs(runs)) | dict(_of_profiles(profiles))
    first, last = VERSIONS[0], VERSIONS[-1]
    said = [_sentence(*pair, profiles) for pair in (*pairwise(VERSIONS), (first, last))]
    return StudyFindings(numbers, _panels(runs, profiles), (*said, *_silent(profiles)))


def _of_runs(runs: Mapping[str, TimedRun]) -> Iterator[tuple[str, float]]:
    first = runs[VERSIONS[0]]
    for version, run in runs.items():
        yield f"{version}/run-time", run.seconds
        yield f"{version}/cpu-time", run.cpu_seconds
        yield f"{version}/cpu-use", run.cpu_seconds / run.seconds
        yield f"{version}/footprint", run.footprint_bytes / _MIB
        yield f"{version}/factors-differ", float(np.abs(run.factors - first.factors).max())
    for version in VERSIONS[1:]:
        run = runs[version]
        yield f"change/{version}/run-time", run.seconds / first.seconds - 1
        yield f"change/{version}/cpu-time", run.cpu_seconds / first.cpu_seconds - 1
        yield f"change/{version}/footprint", run.footprint_bytes / first.footprint_bytes - 1


def _of_profiles(profiles: Mapping[str, Profile]) -> Iterator[tuple[str, float]]:
    for version, document in profiles.items():
        yield f"{version}/steps-per-second", document["baseline"]["value"]
        for row in document["sources"]:
            for kind in ("tolerated", "caused"):
                if row[kind] is not None:
                    yield f"{version}/{row['name']}/{kind}", row[kind]["value"]


def _sentence(before: str, after: str, profiles: Mapping[str, Profile]) -> str:
    changes = compare(profiles[before], profiles[after])
    certain = [_told(change) for change in changes if change.is_significant]
    return f"First seed, {before} to {after}: {', '.join(certain) or 'no change is significant'}."


def _told(change: Change) -> str:
    if change.source:
        return f"{change.kind} {change.source} {change.change:+.0f}"
    return f"{change.kind} {change.change:+.0%}"


def _silent(profiles: Mapping[str, Profile]) -> Iterator[str]:
    for version, document in profiles.items():
        silent = [row["name"] for row in document["sources"] if row["tolerated"] is None]
        if silent:
            yield f"First seed, {version}: no signal of {', '.join(silent)}."


def _panels(runs: Mapping[str, TimedRun], profiles: Mapping[str, Profile]) -> dict[str, Panels]:
    def of(kind: str, document: Profile) -> dict[str, float]:
        return {row["name"]: row[kind]["value"] for row in document["sources"] if row[kind]}

    return {
        "runs": {
            "run time (s)": {version: run.seconds for version, run in runs.items()},
            "CPU use (%)": {
                version: 100 * run.cpu_seconds / run.seconds for version, run in runs.items()
            },
            "footprint (MiB)": {
                version: run.footprint_bytes / _MIB for version, run in runs.items()
            },
        },
        "profile": {
            kind: {version: of(kind, document) for version, document in profiles.items()}
            for kind in ("tolerated", "caused")
        },
    }


IBENCH_FIGURE58 = GroundTruthStudy(
    name="ibench-figure58",
    about="a real program for collaborative filtering in four versions: runs and profiles",
    source="dissertation 5.5.3, Figure 5.8, and 5.1",
    measure=look,
    machine=True,
    repeats=2,
    published={"change/memoised/run-time": -0.35, "change/memoised/footprint": -0.49},
    units={
        "change/*": "of the plain version's",
        "*/run-time": "s",
        "*/cpu-time": "s",
        "*/cpu-use": "CPUs",
        "*/footprint": "MiB",
        "*/factors-differ": "largest difference",
        "*/steps-per-second": "1/s",
        "*": "points",
    },
    notes=(
        (
            "Measured on this machine, on its last CPU, as whole runs and by `wharfinger profile`. "
            "Instructions per cycle and memory bandwidth need counters: not measured."
        ),
        "A source without a number had no signal.",
    ),
    pictures=(
        Picture("runs", profile_plots.bars_of, "Four versions of one computation"),
        Picture("profile", profile_plots.profiles, "Their interference profiles"),
    ),
)
