"""The tail of redis and nginx in their first minute, beside what was predicted of it.

Each start is a new workload with a rate and a bound drawn by the seed. An observer of its own asks
it a little, as independent users do, from its start on: it tells the percentile of that minute,
whatever the manager reads meanwhile.
"""

import random
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from math import exp, log
from pathlib import Path
from statistics import NormalDist, median
from typing import Any

from benchmarks._live_mix import free_port, module
from tests.support.live import manifest
from wharfinger.cli.client import Client
from wharfinger.errors import NotFound

PERCENTILE, COVERAGE = 99.0, 0.9
WATCHED_SECONDS = 60.0
PLACING_SECONDS = 240.0
OBSERVED_PER_SECOND = 50
REPORT = r"throughput=(?P<throughput>[0-9.]+) latency_ms=(?P<latency_ms>[0-9.]+)"
NGINX = """daemon off; worker_processes 2; pid {place}/nginx.pid; error_log {place}/error.log;
events {{}}
http {{
  access_log off; sendfile off;
  client_body_temp_path {place}; proxy_temp_path {place}; fastcgi_temp_path {place};
  uwsgi_temp_path {place}; scgi_temp_path {place};
  server {{ listen 127.0.0.1:{port}; root {place}; }}
}}
"""
DOCUMENT_BYTES = 200_000


@dataclass(frozen=True, slots=True)
class Service:
    """A program that users have, and how it is asked.

    Attributes:
        rates: Requests a second, from and to.
        bounds_ms: On the percentile, from and to.
    """

    program: str
    protocol: str
    rates: tuple[float, float]
    bounds_ms: tuple[float, float]

    def command(self, place: Path, port: int) -> tuple[str, ...]:
        """Of the service, with its files in a directory of its own."""
        if self.program == "redis-server":
            options = {"--port": str(port), "--save": "", "--appendonly": "no"}
            words = (word for pair in options.items() for word in pair)
            return (self.program, *words, "--dir", str(place))
        documents = place / "document"
        documents.mkdir()
        for number in range(100):
            (documents / str(number)).write_bytes(b"x" * DOCUMENT_BYTES)
        (place / "nginx.conf").write_text(NGINX.format(place=place, port=port))
        for path in (place, documents):
            path.chmod(0o777)
        return (self.program, "-p", str(place), "-c", str(place / "nginx.conf"))

    def load(self, port: int, rate: float, *options: str) -> tuple[str, ...]:
        """That asks it at random times."""
        asked = ("--write-every", "1", "--value-bytes", "20000") if self.protocol == "redis" else ()
        driver = ("wharfinger.catalog.programs.load", "--protocol", self.protocol)
        every = ("--port", str(port), "--rate", f"{rate:.0f}", "--poisson", "--connections", "32")
        return module(*driver, *every, "--percentile", f"{PERCENTILE:g}", *asked, *options)


SERVICES = {
    "redis": Service("redis-server", "redis", (200.0, 800.0), (5.0, 40.0)),
    "nginx": Service("nginx", "http", (100.0, 400.0), (5.0, 40.0)),
}


def missing() -> dict[str, str]:
    """Services that can't be tried here, with the program that is not installed."""
    programs = {name: service.program for name, service in SERVICES.items()}
    return {name: program for name, program in programs.items() if shutil.which(program) is None}


def starts(
    client: Client, live: Any, count: int, seed: int, place: Path, times: float = 1.0
) -> list[dict[str, Any]]:
    """So many starts of each service that is there, one by one, at so many times the rates."""
    source, found = random.Random(seed), []
    for number in range(count):
        for name, service in SERVICES.items():
            rate, bound_ms = (
                times * source.uniform(*service.rates),
                source.uniform(*service.bounds_ms),
            )
            if name not in missing():
                directory = place / f"{name}-{number}"
                directory.mkdir(mode=0o755)
                started = _start(client, live, service, directory, rate, bound_ms)
                found.append({"name": name, "rate": rate, "bound_ms": bound_ms, **started})
                print(found[-1], file=sys.stderr)
    return found


def _start(
    client: Client, live: Any, service: Service, place: Path, rate: float, bound_ms: float
) -> dict[str, Any]:
    port, name = free_port(), place.name
    live.submit(
        manifest(
            name,
            *service.command(place, port),
            type="latency-critical",
            target={
                "throughput": f"{0.9 * rate:.0f}/s",
                "latency": {"percentile": int(PERCENTILE), "below": f"{1000 * bound_ms:.0f}us"},
            },
            measure={"load": {"command": list(service.load(port, rate)), "regex": REPORT}},
            resources={"cpu": "500m", "memory": "256Mi"},
        )
    )
    try:
        begun = _wait_for_start(client, name)
        if begun is None:
            return {"outcome": "not placed", "message": client.get("workloads", name)["message"]}
        log_file = place / "observed"
        window = ("--window", f"{WATCHED_SECONDS:g}", "--log", str(log_file))
        with _observer(service.load(port, OBSERVED_PER_SECOND, *window)):
            readings = list(_readings(client, name, time.monotonic() + WATCHED_SECONDS))
        after = client.get("workloads", name)
        latencies = re.findall(r"latency_ms=([0-9.]+)", log_file.read_text())
        return _compared(begun, after, float(latencies[-1]), readings)
    finally:
        with suppress(NotFound):
            client.call("DELETE", "workloads", name)
            _wait_for_end(client, name)


def _wait_for_start(client: Client, name: str) -> dict[str, Any] | None:
    until = time.monotonic() + PLACING_SECONDS
    while time.monotonic() < until:
        found: dict[str, Any] = client.get("workloads", name)
        if found["phase"] == "running":
            return found
        if found["ended_at"] is not None:
            return None
        time.sleep(0.2)
    return None


def _wait_for_end(client: Client, name: str) -> None:
    until = time.monotonic() + 30
    while time.monotonic() < until:
        if client.get("workloads", name)["ended_at"] is not None:
            return
        time.sleep(0.2)


@contextmanager
def _observer(command: Sequence[str]) -> Iterator[None]:
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        try:
            yield
        finally:
            process.kill()


def _readings(client: Client, name: str, until: float) -> Iterator[tuple[float, bool]]:
    """Each second: the latency in ms as the manager reads it, and whether the target is missed."""
    while time.monotonic() < until:
        time.sleep(1.0)
        found = client.get("workloads", name)
        latency = found["achieved"] and found["achieved"]["latency_seconds"]
        if latency is not None:
            yield 1000 * latency, found["met"] is False


def _compared(
    begun: dict[str, Any],
    after: dict[str, Any],
    p99_ms: float,
    readings: Sequence[tuple[float, bool]],
) -> dict[str, Any]:
    predicted = begun["predicted"] and begun["predicted"]["performance"]["latency_seconds"]
    resized = [one for one in after["adjustments"] if one["kind"] == "resized"]
    found = {
        "outcome": "watched",
        "cpus": begun["cpus"],
        "cpus_after": after["cpus"],
        "p99_ms": p99_ms,
        "read_ms": round(median(latency for latency, _ in readings), 2) if readings else None,
        "missed_seconds": sum(missed for _, missed in readings),
        "resizes": len(resized),
        "predicted_ms": None,
        "within": None,
    }
    if predicted:
        mean, z = predicted["mean"], NormalDist().inv_cdf(begun["predicted"]["confidence"])
        std = log(predicted["high"] / mean) / z
        half = exp(NormalDist().inv_cdf((1 + COVERAGE) / 2) * std)
        low, high = 1000 * mean / half, 1000 * mean * half
        interval = [round(one, 2) for one in (low, 1000 * mean, high)]
        found |= {"predicted_ms": interval, "within": low <= p99_ms <= high}
    return found


def shown(found: Sequence[dict[str, Any]]) -> Iterator[str]:
    """The starts for people."""
    for name, program in missing().items():
        yield f"{name}: skipped, there is no {program}"
    head = ("SERVICE", "RATE", "BOUND", "CPU", "PREDICTED P99 (90%)", "CAME", "READ", "WITHIN")
    yield "{:9}{:>6}{:>9}{:>7}{:>28}{:>9}{:>9}{:>8}{:>8}{:>9}".format(*head, "MISSED", "RESIZED")
    for one in found:
        begin = f"{one['name']:9}{one['rate']:>6.0f}{one['bound_ms']:>6.1f} ms"
        if one["outcome"] != "watched":
            yield f"{begin}  {one['outcome']}: {one['message']}"
            continue
        interval = one["predicted_ms"]
        told = "{1:.2f} ({0:.2f} to {2:.2f}) ms".format(*interval) if interval else "none"
        yield (
            f"{begin}{one['cpus']:>7.2f}{told:>28}{one['p99_ms']:>6.1f} ms"
            f"{one['read_ms'] or 0:>6.1f} ms{'yes' if one['within'] else 'no':>8}"
            f"{one['missed_seconds']:>6} s{one['resizes']:>9}"
        )
    for name in SERVICES:
        watched = [one for one in found if one["name"] == name and one["predicted_ms"]]
        within = sum(one["within"] for one in watched)
        yield f"{name}: {within} of {len(watched)} within the predicted 90% interval"
