"""What each workload achieved, compared with its target.

A service's performance is what its clients saw: the load generator's own lines, one a second, not
smoothed. A batch job's is its completion time.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any, NamedTuple

from wharfinger.demo.timeline import MOVED, Row, Timeline, unix_seconds
from wharfinger.demo.workloads import FILLERS, SERVICES, TARGETED, TOLERANCE

HELD_SHARE = 0.8
"""A service has met its target when it held it in this share of its seconds.

A surge must have shown for a while before a manager acts, and half of a short run lies after it.
"""
SETTLE_SECONDS = 5.0
"""A service's first seconds do not count."""
MAX_SCORE = 3.0
"""Performance over target is drawn and compared up to here."""
ACHIEVED = ("completion_seconds", "throughput_per_second", "latency_seconds", "rate_per_second")
LINE = re.compile(r"second=([0-9]+) (?:offered=[0-9.]+ )?throughput=([0-9.]+) latency_ms=([0-9.]+)")


class ClientSecond(NamedTuple):
    """What clients saw in one second since the run's begin; latency at the target's percentile."""

    second: float
    throughput_per_second: float
    latency_seconds: float

    def parts(self, target: Row) -> list[float]:
        """Performance over target, of throughput and then of latency."""
        parts = [self.throughput_per_second / target["throughput_per_second"]]
        if target["latency"] and self.latency_seconds > 0:
            parts.append(target["latency"]["below_seconds"] / self.latency_seconds)
        return parts

    def score(self, target: Row) -> float:
        """Performance over target, the worst part; 1 = exactly kept."""
        return min(MAX_SCORE, *self.parts(target))

    def holds(self, target: Row) -> bool:
        """Whether every part of the target was kept within the tolerance."""
        throughput, *latency = self.parts(target)
        return throughput >= 1 - TOLERANCE and all(part >= 1 / (1 + TOLERANCE) for part in latency)


def read_clients(path: Path) -> list[ClientSecond]:
    """What a service's clients reported; empty where there was no client."""
    lines = LINE.findall(path.read_text()) if path.exists() else []
    return [ClientSecond(float(at), float(rate), float(ms) / 1000) for at, rate, ms in lines]


def judge(
    timeline: Timeline,
    clients: Mapping[str, Sequence[ClientSecond]],
    needs: Mapping[str, float],
    stated: Mapping[str, float],
    run_seconds: float,
) -> dict[str, Any]:
    """One run as ``-o json`` has it (docs/demo.md).

    ``needs`` are CPUs by what programs do alone, ``stated`` reservations in CPUs.
    """
    keys = ("name", "at_seconds", "kind", "reason", "message", "cpus")
    workloads = [
        {
            **row,
            **_verdict(timeline, row, clients.get(row["name"], ()), run_seconds),
            "platforms": [timeline.platforms.get(name, "") for name in row["servers"]],
            "moves": sum(
                (step["kind"], step["name"]) == (MOVED, row["name"])
                for step in timeline.adjustments
            ),
            "needed_cpus": needs.get(row["name"]),
            "reserved_cpus": stated.get(row["name"]),
            "cpu_seconds_used": round(timeline.samples[-1].cpu_seconds([row["name"]]), 3),
        }
        for row in timeline.workloads
    ]
    machine_utilization = timeline.machine_utilization()
    return {
        "policy": timeline.policy,
        "cpus": timeline.cpus,
        "servers": len(timeline.platforms),
        "utilization": round(timeline.utilization((*TARGETED, *FILLERS)), 4),
        "targeted_utilization": round(timeline.utilization(TARGETED), 4),
        "machine_utilization": machine_utilization and round(machine_utilization, 4),
        "duration_seconds": round(timeline.seconds, 1),
        "targets": len(TARGETED),
        "targets_met": sum(row["met"] or False for row in workloads),
        "adjustments": [{key: step[key] for key in keys} for step in timeline.adjustments],
        "workloads": workloads,
    }


def _verdict(
    timeline: Timeline, row: Row, clients: Sequence[ClientSecond], run_seconds: float
) -> dict[str, Any]:
    """The demo's own verdict: ``met`` is of the whole run, not of its last moment."""
    name = row["name"]
    if name in FILLERS:
        return {"met": None, "performance": None, "held_share": None}
    achieved = dict.fromkeys(ACHIEVED)
    verdict = {"met": False, "performance": None, "held_share": None, "achieved": achieved}
    if name in SERVICES:
        _judge_service(verdict, row["target"], clients, run_seconds)
    else:
        _judge_batch(verdict, row)
    decisions = (step for step in timeline.decisions if step["name"] == name)
    placed = [step["predicted"] for step in decisions if step["kind"] == "WorkloadPlaced"]
    return {**verdict, "predicted": placed[-1] if placed else None}


def _judge_batch(verdict: dict[str, Any], row: Row) -> None:
    wanted, took = row["target"]["completion_seconds"], None
    if row["phase"] == "completed":
        took = unix_seconds(row["ended_at"]) - unix_seconds(row["submitted_at"])
        verdict["met"] = took <= wanted * (1 + TOLERANCE)
        verdict["achieved"]["completion_seconds"] = round(took, 4)
    expected = took or (row["achieved"] or {}).get("completion_seconds")
    verdict["performance"] = round(wanted / expected, 4) if expected else None


def _judge_service(
    verdict: dict[str, Any], target: Row, clients: Sequence[ClientSecond], run_seconds: float
) -> None:
    counted = [one for one in clients if one.second >= clients[0].second + SETTLE_SECONDS]
    if not counted:
        return
    share = held_share(counted, target, run_seconds)
    verdict["met"] = share >= HELD_SHARE
    verdict["held_share"] = round(share, 4)
    verdict["performance"] = round(median(one.score(target) for one in counted), 4)
    verdict["achieved"] |= {
        "throughput_per_second": round(fmean(one.throughput_per_second for one in counted), 4),
        "latency_seconds": round(median(one.latency_seconds for one in counted), 4),
    }


def held_share(counted: Sequence[ClientSecond], target: Row, run_seconds: float) -> float:
    """In which share of the seconds until the run's end a target was held.

    A second without a report, because the service was away, was not held.

    >>> target = {"throughput_per_second": 100.0, "latency": None}
    >>> rates = {10: 100, 11: 50, 12: 95}
    >>> held_share([ClientSecond(at, rate, 0.01) for at, rate in rates.items()], target, 14)
    0.5
    """
    held = sum(one.holds(target) for one in counted if one.second <= run_seconds)
    return held / max(len(counted), round(run_seconds - counted[0].second))
