"""What benchmarks share: contenders timed in turns, ratios of one round, JSON.

A benchmark is a script beside this file. It times what it is about together with a named
peer and a floor, in the same run and in turns: on a shared machine the absolute numbers
wander, the ratio within a round far less. Nothing here asserts anything.
"""

import argparse
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import wharfinger

ROUND_SECONDS = 0.002
"""How long one contender is timed at a stretch: far above the clock's resolution."""

Contender = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds per call of each contender, one number a round, rounds in the same order."""

    seconds: Mapping[str, Sequence[float]]

    def summary(self, baseline: str) -> dict[str, object]:
        """Seconds per call, and how many times faster than each other ``baseline`` is."""
        base = self.seconds[baseline]
        ratios = {
            name: spread([other / own for other, own in zip(times, base, strict=True)])
            for name, times in self.seconds.items()
            if name != baseline
        }
        return {
            "seconds_per_call": {name: spread(times) for name, times in self.seconds.items()},
            "ratio_to": {"baseline": baseline, **ratios},
        }


def spread(values: Sequence[float]) -> dict[str, float]:
    """Least, median and largest."""
    return {"min": min(values), "median": statistics.median(values), "max": max(values)}


def compare(contenders: Mapping[str, Contender], rounds: int) -> Timing:
    """Times the contenders in turns; the first call of each is not counted."""
    calls = {name: _calls_per_round(contender) for name, contender in contenders.items()}
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, contender in contenders.items():
            seconds[name].append(_time(contender, calls[name]))
    return Timing(seconds)


def _calls_per_round(contender: Contender) -> int:
    contender()
    return max(1, round(ROUND_SECONDS / max(_time(contender, 3), 1e-9)))


def _time(contender: Contender, calls: int) -> float:
    begin = time.perf_counter()
    for _ in range(calls):
        contender()
    return (time.perf_counter() - begin) / calls


def machine() -> dict[str, object]:
    """What the numbers depend on and a reader can't see."""
    return {
        "architecture": platform.machine(),
        "cpu_model": _cpu_model(),
        "cpus": os.cpu_count(),
        "load_average_1min": os.getloadavg()[0],
        "kernel": platform.release(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "wharfinger": wharfinger.__version__,
    }


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if "model name" in line), "")


def arguments(description: str) -> argparse.Namespace:
    """The options of a benchmark that takes no others."""
    return parser(description).parse_args()


def parser(description: str) -> argparse.ArgumentParser:
    """The options that every benchmark takes."""
    made = argparse.ArgumentParser(description=description)
    made.add_argument("--rounds", type=int, default=50, help="repeats (default: 50)")
    made.add_argument("--seed", type=int, default=0, help="of the input (default: 0)")
    made.add_argument("--output", type=Path, help="write the JSON there (default: stdout)")
    return made


def report(name: str, options: argparse.Namespace, results: Sequence[object]) -> None:
    """Writes the run as one JSON object."""
    document = {
        "benchmark": name,
        "machine": machine(),
        "rounds": options.rounds,
        "seed": options.seed,
        "results": results,
    }
    text = json.dumps(document, indent=2) + "\n"
    if options.output:
        options.output.write_text(text)
    else:
        sys.stdout.write(text)
