"""Shares of CPU time without a quota: what is asked, what is got, what it costs.

``python -m benchmarks.pace [--seconds 5] [--shares 100,300] [--programs busy,short-lived]``

Each kind of program runs unpaced first, which is the most that the machine gives it at the
moment, then at each share. The tree's CPU time is what /proc tells of it, the supervisor's own is
its schedstat. On a machine with other work a share is got only where the unpaced program gets more.
"""

import argparse
import json
import os
import select
import sys
import tempfile
import time
from pathlib import Path

from benchmarks._harness import machine
from wharfinger.host.processes import measure_tree
from wharfinger.host.run_dir import read_run
from wharfinger.host.supervisor import LaunchSpec, launch, request_stop

BUSY = "while :; do :; done"
GZIP = "while :; do gzip -c data > /dev/null; done"
HASHES = (
    "import hashlib, threading; data = bytes(1 << 20)\n"
    "def work():\n"
    "    while True: hashlib.sha256(data)\n"
    "for _ in range(4): threading.Thread(target=work).start()"
)
PROGRAMS = {
    "busy": BUSY,
    "four-processes": f"for i in 1 2 3; do ({BUSY}) & done; {BUSY}",
    "four-threads": f"exec {sys.executable} -S -c '{HASHES}'",
    "short-lived": f"head -c 300000 /dev/urandom > data; {GZIP}",
    "shorter-lived": "while :; do /bin/true; done",
    "busy-and-50-sleepers": f"for i in $(seq 50); do sleep 900 & done; {BUSY}",
    "idle": "exec sleep 900",
}


def supervisor_state(pid: int) -> tuple[float, int]:
    """CPU seconds, and how often it has gone to sleep."""
    used = int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return used, next(int(line.split()[1]) for line in lines if line.startswith("voluntary"))


def run(program: str, share: int | None, seconds: float) -> dict[str, float | int | str | None]:
    with tempfile.TemporaryDirectory() as folder:
        run_dir = Path(folder) / "run"
        run_dir.mkdir(mode=0o700)
        command = ("sh", "-c", PROGRAMS[program])
        env = {"PATH": os.environ["PATH"]}
        supervisor = launch(run_dir, LaunchSpec(command, env, Path(folder), cpu_millicpus=share))
        try:
            while read_run(run_dir).started is None:
                time.sleep(0.01)
            time.sleep(1.0)
            tree, own = measure_tree(supervisor.pid).cpu_seconds, supervisor_state(supervisor.pid)
            began = time.monotonic()
            time.sleep(seconds)
            passed = time.monotonic() - began
            got = (measure_tree(supervisor.pid).cpu_seconds - tree) / passed
            used, sleeps = supervisor_state(supervisor.pid)
            return {
                "program": program,
                "asked_millicpus": share,
                "got_millicpus": round(1000 * got, 1),
                "supervisor_cpu_percent": round(100 * (used - own[0]) / passed, 3),
                "wakeups_per_second": round((sleeps - own[1]) / passed, 1),
            }
        finally:
            request_stop(run_dir, supervisor.pidfd, 0)
            select.select([supervisor], [], [])
            supervisor.poll()
            supervisor.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--shares", default="100,300,700,1500")
    parser.add_argument("--programs", default=",".join(PROGRAMS))
    options = parser.parse_args()
    shares: list[int | None] = [None, *map(int, options.shares.split(","))]
    results = []
    for program in options.programs.split(","):
        for share in shares:
            results.append(run(program, share, options.seconds))
            print(json.dumps(results[-1]), file=sys.stderr)
    print(json.dumps({"benchmark": "pace", "machine": machine(), "results": results}, indent=2))


if __name__ == "__main__":
    main()
