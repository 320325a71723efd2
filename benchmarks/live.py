"""Real programs with targets on this machine: what is kept, how fast it is mended, what it costs.

Two services under load (one stepped), three batch jobs and two fillers, under `quasar` (profiled
as copies), `quasar` by their like (no copies), `feedback` and `least-loaded`, one after the other
on the same targets, which are shares of what each program does alone just before. Then 30
workloads that print a line a second, and what manager and meter take for them.

With `--starts N` instead: N starts of redis and of nginx under `quasar`, and whether the 99th
percentile of the first minute was within the predicted 90% interval.

With `--periods N` instead: a load that rises once a minute, with the forecast and without it.

With `--phases N` instead: N phases of each of two programs, and which are found.

Run it with: python -m benchmarks.live [--minutes 3] [--starts 0] [--periods 0] [--phases 0]
[--seed 0] [-o json]
`--minutes` is the time for which each policy is watched. Nothing here asserts anything.
"""

import argparse
import json
import os
import random
import shlex
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks import _live_phases, _live_seasons, _live_starts
from benchmarks._harness import machine
from benchmarks._live_mix import LOW, Mix, draw, free_port, measure_alone
from benchmarks.measuring import children, cpu_seconds, resident_bytes
from tests.support.live import LiveManager, manifest
from wharfinger.cli.client import Client

CONTENDERS = {
    "quasar": ("quasar", "copy"),
    "quasar by like": ("quasar", "none"),
    "feedback": ("feedback", "none"),
    "least-loaded": ("least-loaded", "none"),
}
SAMPLE_SECONDS = 2.0
BEGIN_SECONDS = 90.0
TICKER = "i=0; while true; do i=$((i+1)); echo done=$i; sleep 1; done"


@dataclass(slots=True)
class Course:
    """What was seen under one policy.

    Attributes:
        met: By workload, one for each sample at which it ran and was measured.
        errors: By kind of prediction: |ln(achieved / predicted)| of each sample.
        times: Seconds since 1970, of each sample.
        pages: Of each sample, whether the stepped service kept its target.
        utilisation: CPU time of all workloads over that of the machine.
        own: CPU seconds and largest memory of the manager and what it starts for itself.
    """

    met: dict[str, list[bool]] = field(default_factory=dict)
    errors: dict[str, list[float]] = field(default_factory=dict)
    times: list[float] = field(default_factory=list)
    pages: list[bool | None] = field(default_factory=list)
    used: list[tuple[float, dict[str, float]]] = field(default_factory=list)
    own: dict[str, "Own"] = field(default_factory=dict)


@dataclass(slots=True)
class Own:
    """What one kind of our processes takes: CPU seconds by process, and the most memory."""

    cpu_seconds: dict[int, float] = field(default_factory=dict)
    resident_bytes: int = 0


def ours(manager: int) -> dict[int, str]:
    """The manager and those that it started for itself, by what they are."""
    kinds = {"measure.meter": "meter", "profiling.worker": "profiler"}
    found = {manager: "manager"}
    for pid in children(manager):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_text()
        except OSError:
            continue
        for part, kind in kinds.items():
            if part in words:
                found[pid] = kind
    return found


def note_own(course: Course, manager: int) -> None:
    for pid, kind in ours(manager).items():
        own = course.own.setdefault(kind, Own())
        try:
            own.cpu_seconds[pid] = cpu_seconds(pid)
            own.resident_bytes = max(own.resident_bytes, resident_bytes(pid))
        except (OSError, IndexError):
            continue  # it ended meanwhile


def look(client: Client, course: Course, manager: int) -> dict[str, dict[str, Any]]:
    """One sample of everything."""
    now = time.time()
    found = {workload["name"]: workload for workload in client.get("workloads")}
    for name, workload in found.items():
        if workload["target"] is None or workload["met"] is None:
            continue
        course.met.setdefault(name, []).append(workload["met"])
        for error in workload["prediction_errors"]:
            course.errors.setdefault(error["name"], []).append(abs(error["log_error"]))
    course.times.append(now)
    course.pages.append(found["pages"]["met"] if "pages" in found else None)
    used = {one["name"]: one["cpu_seconds"] or 0.0 for one in client.get("usage")}
    course.used.append((time.monotonic(), used))
    note_own(course, manager)
    return found


@contextmanager
def running(directory: Path, *options: str) -> Iterator[tuple[LiveManager, Client, int]]:
    """A manager that is cleared away afterwards."""
    live = LiveManager(directory / "state", *options)
    live.start()
    assert live.process is not None
    try:
        yield live, Client(live.state), live.process.pid
    finally:
        live.clear()


def seconds_of(stamp: str) -> float:
    return datetime.fromisoformat(stamp).replace(tzinfo=UTC).timestamp()


def watch(name: str, mix: Mix, minutes: float, directory: Path) -> dict[str, Any]:
    """The mixed set under one policy."""
    policy, mode = CONTENDERS[name]
    course, directory = Course(), directory / name.replace(" ", "-")
    directory.mkdir()
    with running(directory, "--policy", policy) as (live, client, pid):
        began = time.time()
        live.submit(*mix.manifests(mode, free_port(), free_port()))
        begin = Course(own=course.own)
        while time.time() < began + BEGIN_SECONDS:
            found = look(client, begin, pid)
            if all(one["started_at"] for one in found.values() if one["target"]):
                break
            time.sleep(SAMPLE_SECONDS)
        placed = time.time()
        while time.time() < placed + 60 * minutes:
            time.sleep(SAMPLE_SECONDS)
            found = look(client, course, pid)
        details = {each: client.get("workloads", each) for each in found}
    return summary(name, course, details, placed - began, mix)


def summary(
    name: str, course: Course, details: Mapping[str, Any], placing_seconds: float, mix: Mix
) -> dict[str, Any]:
    """One policy's figures."""
    samples = [met for each in course.met.values() for met in each]
    step_at = seconds_of(details["pages"]["started_at"] or "1970-01-01T00:00:00") + mix.step_second
    profilers = course.own.get("profiler", Own())
    return {
        "name": name,
        "samples_in_target": _share(samples),
        "by_workload": {each: _share(met) for each, met in sorted(course.met.items())},
        "never_started": sorted(n for n, one in details.items() if not one["started_at"]),
        "first_placed_all_seconds": round(placing_seconds, 1),
        "copies": len(profilers.cpu_seconds),
        "reaction": reaction(course, details["pages"], step_at),
        "adjustments": _adjustments(details),
        "prediction_error": {
            kind: {"median": round(statistics.median(errors), 3), "samples": len(errors)}
            for kind, errors in sorted(course.errors.items())
        },
        "utilization": _utilization(course.used),
        "own": {
            kind: {
                "cpu_seconds": round(sum(own.cpu_seconds.values()), 2),
                "resident_mb": round(own.resident_bytes / 1e6, 1),
            }
            for kind, own in sorted(course.own.items())
        },
    }


def _share(met: Sequence[bool]) -> float | None:
    return round(sum(met) / len(met), 3) if met else None


def _adjustments(details: Mapping[str, Any]) -> dict[str, int]:
    kinds = [made["kind"] for one in details.values() for made in one["adjustments"]]
    return {kind: kinds.count(kind) for kind in sorted(set(kinds))}


def _utilization(used: Sequence[tuple[float, Mapping[str, float]]]) -> float | None:
    """CPU time of the workloads between samples, over that of all CPUs."""
    taken = passed = 0.0
    for (before, first), (after, second) in pairwise(used):
        taken += sum(max(0.0, second[name] - first[name]) for name in first.keys() & second.keys())
        passed += after - before
    cpus = machine()["cpus"]
    return round(taken / passed / cpus, 3) if passed and isinstance(cpus, int) else None


def reaction(course: Course, pages: Mapping[str, Any], step_at: float) -> dict[str, Any]:
    """Seconds from the load's step to what was done, and until the target was kept for good.

    ``missed_at``: of the first sample below; ``None`` = it was never missed. ``kept_at``: of the
    sample from which on it was kept for at least 10 s, or to the end.
    """
    acted = [
        seconds_of(made["time"]) - step_at
        for made in pages["adjustments"]
        if made["kind"] in ("resized", "relieved", "moved") and seconds_of(made["time"]) >= step_at
    ]
    after = [
        (at - step_at, met)
        for at, met in zip(course.times, course.pages, strict=True)
        if at >= step_at and met is not None
    ]
    missed = next((at for at, met in after if not met), None)
    kept = None
    for index, (at, _) in enumerate(after):
        held = [met for later, met in after[index:] if later < at + 10]
        if missed is not None and at > missed and all(held):
            kept = at
            break
    return {
        "first_adjustment_seconds": round(min(acted), 1) if acted else None,
        "missed_at_seconds": None if missed is None else round(missed, 1),
        "kept_again_at_seconds": None if kept is None else round(kept, 1),
    }


def overhead(seconds: float, workloads: int, directory: Path) -> dict[str, Any]:
    """What manager and meter take for many workloads; nobody asks them anything meanwhile."""
    resources = {"cpu": "20m", "memory": "16Mi"}
    jobs = [
        manifest(
            f"w{number}",
            "sh",
            "-c",
            TICKER,
            target={"rate": "0.5/s"},
            resources=resources,
            measure={"progress": {"regex": "done=([0-9]+)"}},
            profile={"mode": "none"},
        )
        for number in range(workloads)
    ]
    with running(directory) as (live, _, pid):
        live.submit(*jobs)
        live.wait_for(lambda found: all(w["achieved"] for w in found.values()), 120)
        before = {one: cpu_seconds(one) for one in ours(pid)}
        began = time.monotonic()
        time.sleep(seconds)
        passed, kinds = time.monotonic() - began, ours(pid)
        percent = {
            kinds[one]: round(100 * (cpu_seconds(one) - used) / passed, 2)
            for one, used in before.items()
        }
        memory = {kinds[one]: round(resident_bytes(one) / 1e6, 1) for one in before}
    return {
        "workloads": workloads,
        "seconds": round(passed, 1),
        "cpu_percent_of_one_core": {**percent, "together": round(sum(percent.values()), 2)},
        "resident_mb": {**memory, "together": round(sum(memory.values()), 1)},
    }


def shown(document: Mapping[str, Any]) -> Iterator[str]:
    """The run for people."""
    about = document["machine"]
    yield f"machine: {about['cpus']} x {about['cpu_model']}, Linux {about['kernel']}, load average "
    yield f"         {document['load_average_before']} before, {about['load_average_1min']} after"
    yield f"command: {document['command']}"
    yield f"date:    {document['date']}"
    yield "alone:   " + ", ".join(f"{n} {v:.4g}/s" for n, v in document["alone"].items()) + "\n"
    head = ("POLICY", "IN TARGET", "ACTS AFTER", "KEPT AGAIN", "PLACED IN", "CPU USED", "ADJUSTED")
    yield "{:16}{:>10}{:>12}{:>13}{:>11}{:>10}{:>10}".format(*head)
    for one in document["results"]:
        found = one["reaction"]
        missed, kept = found["missed_at_seconds"], found["kept_again_at_seconds"]
        again = "not missed" if missed is None else _in_seconds(kept, "never")
        yield (
            f"{one['name']:16}{one['samples_in_target'] or 0:>10.0%}"
            f"{_in_seconds(found['first_adjustment_seconds'], 'never'):>12}{again:>13}"
            f"{_in_seconds(one['first_placed_all_seconds'], '-'):>11}"
            f"{one['utilization'] or 0:>10.0%}{sum(one['adjustments'].values()):>10}"
        )
    yield "\nprediction error, median |ln(achieved / predicted)| (samples)"
    for one in document["results"]:
        for kind, error in one["prediction_error"].items():
            yield f"  {one['name']:16}{kind:26}{error['median']:.2f} ({error['samples']})"
    yield "\nour own processes while the set ran: CPU seconds, most memory"
    for one in document["results"]:
        told = (f"{k} {v['cpu_seconds']} s, {v['resident_mb']} MB" for k, v in one["own"].items())
        yield f"  {one['name']:16}{'; '.join(told)}"
    own = document["overhead"]
    percent, memory = own["cpu_percent_of_one_core"], own["resident_mb"]
    yield f"\n{own['workloads']} workloads, for {own['seconds']:.0f} s"
    for kind in percent:
        yield f"  {kind:10}{percent[kind]:6.2f} % of one core {memory[kind]:8.1f} MB"


def _in_seconds(value: float | None, otherwise: str) -> str:
    return otherwise if value is None else f"{value:.1f} s"


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.live", description=__doc__)
    parser.add_argument("--minutes", type=float, default=3.0, help="for each policy (default: 3)")
    parser.add_argument("--seed", type=int, default=0, help="of the targets (default: 0)")
    parser.add_argument(
        "--starts", type=int, default=0, help="of redis and nginx, each (default: none)"
    )
    parser.add_argument("--periods", type=int, default=0, help="of a seasonal load (default: none)")
    parser.add_argument("--phases", type=int, default=0, help="of two programs (default: none)")
    parser.add_argument("--times", type=float, default=1.0, help="the rates of these (default: 1)")
    parser.add_argument("--policies", default=",".join(CONTENDERS), help="default: all")
    parser.add_argument("--workloads", type=int, default=30, help="of the overhead (default: 30)")
    parser.add_argument("-o", dest="form", choices=["table", "json"], default="table")
    return parser.parse_args()


def watch_starts(given: argparse.Namespace, document: dict[str, Any]) -> None:
    """The starts of redis and nginx, instead of all else."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as place:
        Path(place).chmod(0o755)
        with running(Path(place), "--policy", "quasar") as (live, client, _):
            found = _live_starts.starts(
                client, live, given.starts, given.seed, Path(place), given.times
            )
    document |= {"starts": found, "skipped": _live_starts.missing()}
    say(given, document, _live_starts.shown(found))


def watch_seasons(given: argparse.Namespace, document: dict[str, Any]) -> None:
    """A service under a seasonal load, instead of all else."""
    alone, found = measure_alone()["pages"], []
    for name, policy in _live_seasons.POLICIES.items():
        with tempfile.TemporaryDirectory(dir="/var/tmp") as place:
            cpu = min(os.sched_getaffinity(0))
            with running(Path(place), "--policy", policy, "--servers", f"one={cpu}") as up:
                found.append(_live_seasons.season(name, up[0], up[1], alone, given.periods))
    document |= {"alone": alone, "seasons": found}
    say(given, document, _live_seasons.shown(found))


def watch_phases(given: argparse.Namespace, document: dict[str, Any]) -> None:
    """Two programs whose phases are known, instead of all else."""
    one, two, *_ = (*sorted(os.sched_getaffinity(0)), None)
    if two is None:
        sys.exit("--phases: each of two programs has a CPU of its own; this machine gives one")
    options = ("--policy", _live_phases.POLICY, "--servers", f"one={one},two={two}")
    with (
        tempfile.TemporaryDirectory(dir="/var/tmp") as place,
        running(Path(place), *options) as (live, client, _),
    ):
        document["phases"] = found = _live_phases.phases(live, client, given.phases)
    say(given, document, _live_phases.shown(found))


def say(given: argparse.Namespace, document: dict[str, Any], lines: Iterable[str]) -> None:
    """The document, or its lines after those of the machine."""
    document["machine"] = about = machine()
    if given.form == "json":
        print(json.dumps(document, indent=2))
        return
    print(f"machine: {about['cpus']} x {about['cpu_model']}, Linux {about['kernel']}, load average")
    print(f"         {document['load_average_before']} before, {about['load_average_1min']} after")
    print(f"command: {document['command']}")
    print("\n".join(lines))


def main() -> None:
    given = options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    document: dict[str, Any] = {
        "benchmark": "live",
        "command": shlex.join(["python", "-m", "benchmarks.live", *sys.argv[1:]]),
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "seed": given.seed,
        "load_average_before": machine()["load_average_1min"],
    }
    if given.starts:
        watch_starts(given, document)
        return
    if given.periods:
        watch_seasons(given, document)
        return
    if given.phases:
        watch_phases(given, document)
        return
    with tempfile.TemporaryDirectory(dir="/var/tmp") as place:
        alone = measure_alone()
        mix = Mix(alone, draw(alone, random.Random(given.seed)), 60 * given.minutes)
        document["alone"] = alone
        document["load_rates_per_second"] = {"low": LOW * alone["pages"], "high": mix.high}
        document["results"] = [
            watch(name, mix, given.minutes, Path(place)) for name in given.policies.split(",")
        ]
        document["overhead"] = overhead(30.0, given.workloads, Path(place))
    document["machine"] = machine()
    print(json.dumps(document, indent=2) if given.form == "json" else "\n".join(shown(document)))


if __name__ == "__main__":
    main()
