"""A real program with phases that are known: how many are found, how soon, and false alarms.

Two programs on two CPUs. Their work takes three times as long in every other phase. A phase lasts a
minute and a half, and the programs' phases begin three quarters of a minute apart.
A phase is found where, within ``FOUND_SECONDS`` of its begin, sources rise beside the program
because it left its level, or it is classified again by that alone. Any other such alarm is false.
"""

import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from statistics import median
from typing import Any

from tests.support.live import LiveManager, manifest
from wharfinger.cli.client import Client

POLICY = "paragon[phases.share=0]"
"""As by default, but that none is probed without a reason."""
PHASE_SECONDS, FOUND_SECONDS = 90.0, 60.0
FIRST_SECONDS = 60.0
"""From the submission to the first change: it is profiled, starts and finds its level."""
PROGRAM = """
import hashlib, sys, time
first, length, done = float(sys.argv[1]), float(sys.argv[2]), 0
while True:
    odd = time.time() >= first and int((time.time() - first) // length) % 2 == 0
    for _ in range(5):
        hashlib.pbkdf2_hmac("sha256", b"x", b"y", 9000 if odd else 3000)
        done += 1
    print(f"done={done}", flush=True)
"""
NAMES = ("first", "second")
KINDS = ["ProbePlanned", "ReclassificationPlanned"]
PROBED, BY_THAT_ALONE = "probed for another phase", "reclassified by that alone"


@dataclass(slots=True)
class Phases:
    """Of one program.

    Attributes:
        begin: When its phases began, in seconds since 1970.
        alarms: When it was taken to have entered one.
    """

    begin: list[float]
    alarms: list[float] = field(default_factory=list)

    def found(self) -> list[float]:
        """Seconds that each took of those that were found."""
        after = ([at - begin for at in self.alarms if at >= begin] for begin in self.begin)
        return [min(each) for each in after if each and min(each) <= FOUND_SECONDS]

    def false_alarms(self) -> int:
        return sum(
            not any(begin <= at <= begin + FOUND_SECONDS for begin in self.begin)
            for at in self.alarms
        )


def phases(live: LiveManager, client: Client, count: int) -> dict[str, Any]:
    """So many phases of each program."""
    now, seen, given = time.time(), {}, []
    for at, name in enumerate(NAMES):
        first = now + FIRST_SECONDS + at * PHASE_SECONDS / len(NAMES)
        seen[name] = Phases([first + n * PHASE_SECONDS for n in range(count)])
        command = (sys.executable, "-c", PROGRAM, f"{first:.3f}", f"{PHASE_SECONDS}")
        given.append(
            manifest(
                name,
                *command,
                target={"rate": "1/s"},
                measure={"progress": {"regex": "done=([0-9]+)"}},
                profile={"seconds": 5},
                resources={"cpu": "300m", "memory": "64Mi"},
            )
        )
    live.submit(*given)
    time.sleep(max(each.begin[-1] for each in seen.values()) + FOUND_SECONDS - time.time())
    for event in client.get("events", query={"limit": 10_000, "kind": KINDS}):
        if (name := event["name"]) in seen and is_alarm(event):
            seen[name].alarms.append(datetime.fromisoformat(event["logged_at"]).timestamp())
    found = [seconds for each in seen.values() for seconds in each.found()]
    return {
        "phases": sum(len(each.begin) for each in seen.values()),
        "found": len(found),
        "median_seconds": median(found) if found else None,
        "slowest_seconds": max(found, default=None),
        "alarms": sum(len(each.alarms) for each in seen.values()),
        "false_alarms": sum(each.false_alarms() for each in seen.values()),
    }


def is_alarm(event: Mapping[str, Any]) -> bool:
    """Whether it begins to be classified again as in another phase."""
    kind, message = event["kind"], event["message"]
    alone = kind == "ReclassificationPlanned" and message.endswith(BY_THAT_ALONE)
    return alone or (kind == "ProbePlanned" and message.startswith(PROBED))


def shown(found: Mapping[str, Any]) -> Iterator[str]:
    """The lines for people."""
    yield f"{found['found']} of {found['phases']} phases were found"
    if found["found"]:
        slowest = f"{found['slowest_seconds']:.1f} s at most"
        yield f"  {found['median_seconds']:.1f} s after they began in the median, {slowest}"
    yield f"{found['false_alarms']} of {found['alarms']} alarms were false"
