"""The programs of ``benchmarks.live``: how each does alone, and the workloads made of that."""

import random
import re
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.support.live import manifest

ALONE_SECONDS = 4.0
LOW, HIGH = 0.1, 0.45
"""Requests a second to the stepped service, as a share of what it can do alone."""
PLACING_SECONDS = 60.0
"""Of a completion target, for one copy after another."""
SHARES = {"deflate": (0.15, 0.3), "digest": (0.1, 0.25), "rows": (0.1, 0.2)}
"""Of each batch job's rate alone, from which its target is drawn."""
JOBS = {
    "deflate": ("wharfinger.catalog.programs.compress", "--algorithm", "zlib"),
    "digest": ("wharfinger.catalog.programs.digest",),
    "rows": ("wharfinger.catalog.programs.database", "--work", "insert"),
}
FILLERS = {
    "filler-matmul": ("wharfinger.catalog.programs.numeric",),
    "filler-text": ("wharfinger.catalog.programs.text",),
}
SERVICES = {
    "pages": (("wharfinger.catalog.programs.http_service",), "http"),
    "cache": (
        ("wharfinger.catalog.programs.keyvalue_service", "--fill", "100", "--value-bytes", "4096"),
        "redis",
    ),
}
REPORT = (
    r"(?:offered=(?P<offered>[0-9.]+) )?"
    r"throughput=(?P<throughput>[0-9.]+) latency_ms=(?P<latency_ms>[0-9.]+)"
)
PROGRESS = r"done=([0-9.]+)"


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def module(name: str, *options: str) -> tuple[str, ...]:
    return (sys.executable, "-P", "-m", name, *options)


def measure_alone() -> dict[str, float]:
    """Units or requests a second, each program by itself on this machine, one after another."""
    alone = {name: _job_alone(command) for name, command in JOBS.items()}
    return alone | {name: _service_alone(*service) for name, service in SERVICES.items()}


def _job_alone(command: tuple[str, ...]) -> float:
    """Its pace between the first number and the last that it says."""
    with subprocess.Popen(module(*command), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        told: list[tuple[float, float]] = []
        for line in process.stdout:
            if found := re.search(PROGRESS, line):
                told.append((time.monotonic(), float(found[1])))
            if told and told[-1][0] > told[0][0] + ALONE_SECONDS:
                break
        process.kill()
    (began, first), (ended, last) = told[0], told[-1]
    return (last - first) / (ended - began)


def _service_alone(command: tuple[str, ...], protocol: str) -> float:
    port = str(free_port())
    load = ("wharfinger.catalog.programs.load", "--protocol", protocol, "--port", port)
    with subprocess.Popen(module(*command, "--port", port), stdout=subprocess.DEVNULL) as service:
        driven = subprocess.run(
            module(*load, "--seconds", f"{ALONE_SECONDS:g}"),
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        service.kill()
    return float(re.findall(r"throughput=([0-9.]+)", driven.stdout)[-1])


def draw(alone: Mapping[str, float], source: random.Random) -> dict[str, float]:
    """Targets of the batch jobs, per second."""
    return {name: source.uniform(*share) * alone[name] for name, share in SHARES.items()}


@dataclass(frozen=True, slots=True)
class Mix:
    """The same workloads for each policy.

    Attributes:
        alone: What each does by itself, per second.
        targets: Of the batch jobs, per second.
        seconds: For which they are watched.
    """

    alone: Mapping[str, float]
    targets: Mapping[str, float]
    seconds: float

    @property
    def high(self) -> float:
        """Requests a second after the step."""
        return HIGH * self.alone["pages"]

    @property
    def step_second(self) -> float:
        """When the load rises, on its generator's clock."""
        return self.seconds / 3

    def manifests(self, mode: str, *ports: int) -> list[dict[str, Any]]:
        """All of them.

        Args:
            mode: Of profiling.
            ports: Of the two services.
        """
        low = LOW * self.alone["pages"]
        up, down = f"{self.step_second:.0f}", f"{2 * self.seconds / 3:.0f}"
        steps = f"--step {up}:{self.high:.0f} --step {down}:{low:.0f}"
        steady = 0.2 * self.alone["cache"]
        # The stepped one comes last: its load's clock begins when it does, beside all others.
        stepped = _service("pages", mode, ports[0], f"--rate {low:.0f} {steps}", 0.8 * low)
        cache = _service("cache", mode, ports[1], f"--rate {steady:.0f}", 0.9 * steady)
        jobs = [
            manifest(
                name,
                *module(*command),
                target={"rate": f"{self.targets[name]:.6g}/s"},
                measure={"progress": {"regex": PROGRESS}},
                resources={"cpu": "250m", "memory": "256Mi"},
                profile={"mode": mode},
            )
            for name, command in JOBS.items()
        ]
        fillers = [
            manifest(name, *module(*command), type="best-effort", resources={"memory": "256Mi"})
            for name, command in FILLERS.items()
        ]
        return [*fillers, cache, *jobs, self._finishing(mode), stepped]

    def _finishing(self, mode: str) -> dict[str, Any]:
        """A job that is to be done in half of the time, after a while for being profiled."""
        rate, work_seconds = 0.15 * self.alone["deflate"], 0.5 * self.seconds
        until, total = PLACING_SECONDS + work_seconds, max(1, round(rate * work_seconds))
        command = (*module(*JOBS["deflate"]), "--total", str(total))
        return manifest(
            "finishing",
            *command,
            target={"completionTime": f"{until:.0f}s"},
            measure={"progress": {"regex": PROGRESS, "total": total}},
            resources={"cpu": "250m", "memory": "256Mi"},
            profile={"mode": mode},
        )


def _service(name: str, mode: str, port: int, load: str, throughput: float) -> dict[str, Any]:
    command, protocol = SERVICES[name]
    driver = ("wharfinger.catalog.programs.load", "--protocol", protocol, "--port", str(port))
    return manifest(
        name,
        *module(*command, "--port", str(port)),
        type="latency-critical",
        target={
            "throughput": f"{throughput:.6g}/s",
            "latency": {"percentile": 95, "below": "150ms"},
        },
        measure={"load": {"command": list(module(*driver, *load.split())), "regex": REPORT}},
        resources={"cpu": "250m", "memory": "256Mi"},
        profile={"mode": mode},
    )
