"""The tail of a latency under a CPU quota: with the usual period and with the short one.

redis and nginx, as `benchmarks.live --starts` asks them, at shares of a CPU, each under 35 and 70 %
of what the share allows by the CPU time of a request. As root, where cgroups can limit CPU time.

Run it with: python -m benchmarks.quota [--seconds 5] [--shares 100,200,300,500,1000] [-o json]
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks._harness import machine
from benchmarks._live_mix import free_port
from benchmarks._live_starts import SERVICES, Service, missing
from wharfinger.host.cgroups import CgroupControl, Group, Limits, Means, discover
from wharfinger.monitor.counters import throttled_periods

UTILIZATIONS = (0.35, 0.7)
WHOLE = 4000
WARM_RATE, WARM_SECONDS = 1000.0, 4.0


@contextmanager
def running(control: CgroupControl, service: Service, place: Path) -> Iterator[tuple[Group, int]]:
    """The service in a group of its own; with its port."""
    group, port = control.create("bench", place.name, _limits(WHOLE, short=False)), free_port()

    def enter() -> None:
        for file in group.procs_files:
            file.write_text(str(os.getpid()))

    command = service.command(place, port)
    with subprocess.Popen(command, preexec_fn=enter, stdout=subprocess.DEVNULL) as process:  # noqa: PLW1509 - no threads here
        try:
            time.sleep(1.0)
            yield group, port
        finally:
            process.terminate()
    group.kill_all()
    group.remove()


def _limits(millicpus: int, *, short: bool) -> Limits:
    return Limits(millicpus, False, 1 << 30, latency_critical=short)


def asked(group: Group, service: Service, port: int, rate: float, seconds: float) -> dict[str, Any]:
    """What came of a load."""
    stat = str(group.paths["cpu"] / "cpu.stat")
    before, used = throttled_periods(stat), group.usage().cpu_seconds
    options = ("--seconds", f"{seconds:g}", "--window", f"{seconds:g}")
    driven = subprocess.run(
        service.load(port, rate, *options), stdout=subprocess.PIPE, text=True, check=True
    )
    after, used_after = throttled_periods(stat), group.usage().cpu_seconds
    assert before and after and used is not None and used_after is not None
    told = dict(re.findall(r"(\w+)=([0-9.]+)", driven.stdout.splitlines()[-1]))
    periods = max(after[0] - before[0], 1)
    return {
        "per_second": float(told["throughput"]),
        "p50_ms": float(told["p50_ms"]),
        "p99_ms": float(told["p99_ms"]),
        "used_cpus": round((used_after - used) / seconds, 3),
        "throttled_share": round((after[1] - before[1]) / periods, 3),
    }


def measure(
    control: CgroupControl, name: str, shares: list[int], seconds: float, place: Path
) -> Iterator[dict[str, Any]]:
    """One service."""
    service = SERVICES[name]
    with running(control, service, place) as (group, port):
        warm = asked(group, service, port, WARM_RATE, WARM_SECONDS)
        each = warm["used_cpus"] / warm["per_second"]
        for millicpus in shares:
            for utilization in UTILIZATIONS:
                rate = utilization * millicpus / 1000 / each
                for short in (False, True):
                    limits = _limits(millicpus, short=short)
                    group.resize(limits)
                    found = asked(group, service, port, rate, seconds)
                    period_ms = limits.period_microseconds / 1000
                    begin = {"service": name, "millicpus": millicpus, "period_ms": period_ms}
                    yield {**begin, "utilization": utilization, **found}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quota", description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--shares", default="100,200,300,500,1000", help="thousandths of a CPU")
    parser.add_argument("-o", dest="form", choices=["table", "json"], default="table")
    given = parser.parse_args()
    control = discover(f"bench-{os.getpid()}")
    if Means.QUOTA not in control.means:
        sys.exit("cgroups can't limit CPU time here")
    results = []
    for name, program in missing().items():
        print(f"{name}: skipped, there is no {program}", file=sys.stderr)
    try:
        for name in SERVICES.keys() - missing().keys():
            with tempfile.TemporaryDirectory(dir="/var/tmp", prefix=f"{name}-") as place:
                Path(place).chmod(0o777)
                shares = [int(share) for share in given.shares.split(",")]
                for one in measure(control, name, shares, given.seconds, Path(place)):
                    results.append(one)
                    if given.form == "table":
                        print("  ".join(f"{key} {value}" for key, value in one.items()), flush=True)
    finally:
        control.close()
    if given.form == "json":
        print(
            json.dumps({"benchmark": "quota", "machine": machine(), "results": results}, indent=2)
        )


if __name__ == "__main__":
    main()
