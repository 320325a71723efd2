"""CPU time of an idle manager and its meter while 30 workloads are measured every second.

Beside it, as the floor, the same manager with the same workloads and no meter's work: before any
of them runs. Real processes, real files; the workloads print a progress line a second.

Run it with: python -m benchmarks.measuring [--seconds 60] [--workloads 30]
"""

import argparse
import json
import os
import tempfile
import time
from pathlib import Path

from tests.support.live import LiveManager, manifest

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
SCRIPT = "i=0; while true; do i=$((i+1)); echo done=$i; sleep 1; done"


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND


def resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def children(pid: int) -> list[int]:
    return [int(c) for c in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def meter_of(pid: int) -> int:
    for child in children(pid):
        if b"measure.meter" in Path(f"/proc/{child}/cmdline").read_bytes():
            return child
    raise SystemExit("there is no meter")


def percent(pids: dict[str, int], seconds: float) -> dict[str, float]:
    before = {name: cpu_seconds(pid) for name, pid in pids.items()}
    began = time.monotonic()
    time.sleep(seconds)
    passed = time.monotonic() - began
    return {
        f"{name}_cpu_percent": round(100 * (cpu_seconds(pid) - before[name]) / passed, 3)
        for name, pid in pids.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--workloads", type=int, default=30)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        live = LiveManager(Path(directory) / "state", "--servers", "1")
        live.start()
        assert live.process is not None
        pid = live.process.pid
        try:
            floor = percent({"floor_manager": pid}, options.seconds / 4)
            jobs = [
                manifest(
                    f"w{number}",
                    "sh",
                    "-c",
                    SCRIPT,
                    target={"rate": "1/s"},
                    resources={"cpu": "20m", "memory": "16Mi"},
                    measure={"progress": {"regex": "done=([0-9]+)"}},
                )
                for number in range(options.workloads)
            ]
            live.submit(*jobs)
            live.wait_for(lambda found: all(w["achieved"] for w in found.values()))
            pids = {"manager": pid, "meter": meter_of(pid)}
            found = floor | percent(pids, options.seconds)
            found |= {f"{name}_resident_bytes": resident_bytes(p) for name, p in pids.items()}
            found["workloads"] = options.workloads
            print(json.dumps(found, indent=2))
        finally:
            live.run("delete", *(f"w{number}" for number in range(options.workloads)))
            live.wait_for_all()
            live.stop()


if __name__ == "__main__":
    main()
