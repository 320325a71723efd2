"""Workloads on a real Slurm, measured from the manager's host: services, batch, CPU time."""

import math
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.live import LiveManager, manifest
from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.demo.slurm.cluster import SlurmCluster
from wharfinger.demo.slurm.settings import choose_ports
from wharfinger.engines.notes import MemoryNotes
from wharfinger.engines.slurm import SlurmEngine, SlurmSettings
from wharfinger.engines.slurm.client.client import CommandClient
from wharfinger.model.performance import Quantity, Reading
from wharfinger.model.workload import Measure, Run, Target
from wharfinger.testing import EngineHarness, ShellPrograms

SERVICE = """
import http.server, pathlib, sys, time
hang = pathlib.Path(sys.argv[2])
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        while hang.exists():
            time.sleep(0.1)
        self.send_response(200)
        self.end_headers()
    def log_message(self, *arguments):
        pass
time.sleep(1)
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""
LOAD = """
import http.client, os, sys, time
while True:
    connection = http.client.HTTPConnection(os.environ["WHARFINGER_NODE"], int(sys.argv[1]), timeout=60)
    connection.request("GET", "/")
    connection.getresponse().read()
    print("ops", 120, os.getpid(), flush=True)
    time.sleep(0.2)
"""  # noqa: E501 - a program
COUNTING = "i=0; while true; do i=$((i+1)); [ $((i % 2000)) -gt 0 ] || echo done=$i; done"


@pytest.fixture
def manager(cluster: SlurmCluster, tmp_path: Path) -> Iterator[LiveManager]:
    (tmp_path / "shared").mkdir()
    options = ("--engine", "slurm", "--shared-dir", str(tmp_path / "shared"))
    manager = LiveManager(
        tmp_path / "state", *options, "--policy", "least-loaded", env=cluster.environment
    )
    manager.start()
    try:
        yield manager
    finally:
        if manager.process is None:
            manager.start()
        manager.clear()


def _service(tmp_path: Path, port: int) -> dict[str, Any]:
    load = {"command": [sys.executable, "-c", LOAD, str(port)], "regex": r"ops (\d+)"}
    service = manifest(
        "svc",
        *(sys.executable, "-c", SERVICE, str(port), str(tmp_path / "hang")),
        type="latency-critical",
        target={"throughput": "100/s"},
        resources={"cpu": 1, "memory": "64Mi"},
        profile={"mode": "none"},
        measure={"load": load},
    )  # fmt: skip
    url = f"http://localhost:{port}/"
    service["spec"]["run"] |= {
        "ready": {"port": port},
        "alive": {"http": url, "every": "1s", "failures": 2, "timeout": "5s"},
        "restart": {"policy": "never"},  # It would hang again, and again.
    }
    return service


def _generators(manager: LiveManager) -> set[str]:
    """Process ids that the newest lines of the generator name."""
    said = manager.run("logs", "svc", "--load").splitlines()
    return {line.split()[2] for line in said}


def test_a_service_is_loaded_measured_and_stopped_when_it_hangs(
    manager: LiveManager, cluster: SlurmCluster, tmp_path: Path
):
    manager.submit(_service(tmp_path, *choose_ports(1)))

    def is_measured() -> bool:
        found = manager.workloads()["svc"]
        throughput = (found["achieved"] or {}).get("throughput_per_second")
        return bool(throughput == pytest.approx(120) and found["met"] and found["ready"])

    cluster.wait_until(is_measured, "it is measured, and meets its target", 120)
    # The generator outlives the manager, and the next one goes on with it.
    generators = _generators(manager)
    assert len(generators) == 1
    manager.kill()
    assert all(Path(f"/proc/{pid}").exists() for pid in generators)
    manager.start()
    cluster.wait_until(is_measured, "it is measured again", 120)
    assert _generators(manager) == generators
    (tmp_path / "hang").touch()
    ended = manager.wait_for_all()["svc"]
    assert ended["reason"] == "not-alive"
    cluster.wait_until(
        lambda: not any(Path(f"/proc/{pid}").exists() for pid in generators), "its load has ended"
    )


def test_progress_and_cpu_time_are_read(cluster: SlurmCluster, tmp_path: Path):
    (tmp_path / "shared").mkdir()
    client, notes = CommandClient(cluster.environment), MemoryNotes()
    settings = SlurmSettings(shared_dir=tmp_path / "shared", poll_seconds=0.5)
    harness = EngineHarness(
        tmp_path,
        lambda state: SlurmEngine(client, notes, settings, state),
        ShellPrograms(tmp_path),
        deadline_seconds=60.0,
    )
    with harness.trial() as trial:
        start = trial.action("k", Run(("sh", "-c", COUNTING), working_directory="/"))
        workload = replace(
            start.workload, target=Target(rate_per_second=1.0), measure=Measure(r"done=(\d+)")
        )
        trial.perform(replace(start, workload=workload))
        trial.wait_for(ev.WorkloadStarted, "k")
        trial.perform(act.MeasureWorkload("k", workload))

        def newest() -> dict[Quantity, Reading]:
            told = [r for r in trial.reports if isinstance(r, ev.ServerMeasured)]
            return dict(told[-1].samples[0].readings) if told else {}

        def reads(quantity: Quantity, above: float, below: float) -> bool:
            read = newest().get(quantity)
            return read is not None and above < read.value < below

        # Slurm counts whole seconds: now and then too few or too many.
        trial.wait_until(lambda: reads(Quantity.CPU, 0, 1.5), "its CPU time")
        trial.wait_until(lambda: reads(Quantity.RATE, 100, math.inf), "its progress")
        cpu_seconds = trial.engine.usage()["k"].cpu_seconds
        assert cpu_seconds is not None
        assert cpu_seconds > 0
