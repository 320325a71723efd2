"""How fast the command line comes up, against a bare Python; and the manager behind it.

``wharfinger --help`` is to stay below 3 times ``python -c pass``, which is the floor here;
the peer is a Python that imports argparse and no more. Then, on a state directory of its
own: the manager's start, its memory when idle, and 1,000 workloads submitted in one file.
"""

import json
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks._harness import arguments, compare, report, spread

FLOOR = "python -c pass"
SUBMITTED = 1_000


def calls() -> dict[str, list[str]]:
    script = str(Path(sys.executable).with_name("wharfinger"))
    return {
        FLOOR: [sys.executable, "-c", "pass"],
        "python -c 'import argparse'": [sys.executable, "-c", "import argparse"],
        "wharfinger --help": [script, "--help"],
        "wharfinger get --help": [script, "get", "--help"],
        "wharfinger version": [script, "version"],
    }


def run(command: list[str]) -> None:
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)


def start_up(rounds: int) -> dict[str, object]:
    contenders = {
        name: lambda command=command: run(command)  # type: ignore[misc] # bound to this command
        for name, command in calls().items()
    }
    return {"what": "process start", **compare(contenders, rounds).summary(FLOOR)}


def manager(rounds: int) -> list[dict[str, object]]:
    """Starts, idle memory, one client call, and a thousand workloads submitted."""
    numbers: dict[str, list[float]] = {
        "start until ready, seconds": [],
        "idle resident memory, MiB": [],
        "get workloads, seconds": [],
        f"submit {SUBMITTED} in one file, seconds": [],
    }
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as directory:
            for name, value in zip(numbers, _one_manager(Path(directory)), strict=True):
                numbers[name].append(value)
    return [{"what": name, **spread(values)} for name, values in numbers.items()]


def _one_manager(directory: Path) -> tuple[float, float, float, float]:
    command = [sys.executable, "-m", "wharfinger"]
    state = ["--state", str(directory / "state")]
    manifests = directory / "many.json"
    manifests.write_text("\n---\n".join(json.dumps(_manifest(n)) for n in range(SUBMITTED)))
    begin = time.perf_counter()
    process = subprocess.Popen([*command, "up", *state], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        while process.stdout.readline().strip() != "ready":
            assert process.poll() is None, "the manager did not come up"
        ready = time.perf_counter() - begin
        memory = _resident_bytes(process.pid) / 2**20
        looked = _timed([*command, "get", "workloads", *state])
        submitted = _timed([*command, "submit", "-f", str(manifests), *state])
        run([*command, "delete", "--all", "--wait", *state])
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate()
    return ready, memory, looked, submitted


def _timed(command: list[str]) -> float:
    begin = time.perf_counter()
    run(command)
    return time.perf_counter() - begin


def _resident_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/{pid}/status has no VmRSS")


def _manifest(number: int) -> dict[str, object]:
    """Too large to run, so that what is timed is handing in."""
    return {
        "apiVersion": "wharfinger.dev/v1alpha1",
        "kind": "Workload",
        "metadata": {"name": f"w{number}"},
        "spec": {
            "type": "batch",
            "resources": {"cpu": 4096, "memory": "64Mi"},
            "run": {"command": ["true"]},
        },
    }


def main() -> None:
    options = arguments("Start of the command line and of the manager.")
    results = [start_up(options.rounds), *manager(max(1, options.rounds // 10))]
    report("startup", options, results)


if __name__ == "__main__":
    main()
