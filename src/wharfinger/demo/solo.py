"""Each program alone on one CPU, through the same engine: what its target is a fraction of."""

import contextlib
import re
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from wharfinger.demo.cluster import ENDED, Cluster
from wharfinger.demo.manifests import (
    DONE_REGEX,
    base,
    drive,
    program,
)
from wharfinger.demo.plan import Kind, Member, Solo, Timing, offered_rate
from wharfinger.errors import Unavailable
from wharfinger.ibench.driver import start
from wharfinger.ibench.sources import Setting, source_named

REPORT_REGEX = r"throughput=(?P<throughput>[0-9.]+) .*p50_ms=(?P<median_ms>[0-9.]+)"
START_SECONDS = 20.0
POLL_SECONDS = 0.05
WARM_STEPS = 2
"""The first steps are not looked at: pages and caches fill."""
LATENCY_SHARE = 0.7
"""Of ``solo_seconds``, for the latency at the target's rate."""


@contextlib.contextmanager
def others_busy(cpus: Sequence[int]) -> Iterator[None]:
    """Keep the other servers' CPUs busy meanwhile, as they are when all run.

    CPUs may share a core, visibly or not: a program is then faster by half while the other is
    idle, and targets that are shares of that speed could not all be kept at once.

    Args:
        cpus: Numbers of CPUs; empty = there are no others.

    Raises:
        Unavailable: The source of interference can't be started.
    """
    if not cpus:
        yield
        return
    with start(Setting(source_named("integer"), cpus=tuple(cpus))) as source:
        source.set_intensity(100.0)
        yield


def measure(cluster: Cluster, member: Member, cpus: float, timing: Timing, directory: Path) -> Solo:
    """One program alone; it has ended afterwards, unless this fails.

    Args:
        cluster: Nothing else may run there.
        member: Has a target.
        cpus: All that there are: targets are a share of them.
        timing: How long.
        directory: Where it runs.

    Raises:
        Unavailable: It does not run or says nothing.
    """
    command, port = program(*member.program), 0
    if member.kind is Kind.SERVICE:
        port = free_port()
        command += ["--port", str(port)]
    whole = base(member, command, directory)
    whole["spec"]["type"] = "single-node"  # A service would have to state a target.
    whole["spec"]["resources"]["cpu"] = f"{whole_cpu(cluster.servers())}m"
    cluster.submit([whole], directory)
    if member.kind is Kind.BATCH:
        found = Solo(_batch(cluster, member.name, timing.solo_seconds))
    else:
        found = _service(cluster, member, port, cpus, timing)
    cluster.clear()
    cluster.drop_records()
    return found


def whole_cpu(servers: list[dict[str, Any]]) -> int:
    """One server's CPU, in thousandths; less where a quota on the manager leaves less."""
    return int(min(server["cpus"] for server in servers) * 1000)


def free_port() -> int:
    """A TCP port that nobody has now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait(cluster: Cluster, name: str, ready: Callable[[str], bool]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not ready(cluster.output(name)):
        workload = next(w for w in cluster.workloads() if w["name"] == name)
        if workload["phase"] in ENDED or time.monotonic() > deadline:
            said = cluster.output(name).strip().splitlines()[-1:] or [workload["message"]]
            raise Unavailable(f"{name} does not run alone: {workload['phase']}: {said[0]}")
        time.sleep(POLL_SECONDS)


def steps_done(output: str) -> int:
    r"""The newest ``done=N``; 0 = none yet.

    >>> steps_done("done=1\ndone=2\ndon")
    2
    """
    found = re.findall(DONE_REGEX + r"\n", output)
    return int(found[-1]) if found else 0


def _batch(cluster: Cluster, name: str, seconds: float) -> float:
    """Steps a second, from the first line seen after the warm-up to the last one."""
    _wait(cluster, name, lambda output: steps_done(output) >= WARM_STEPS)
    first, began = _next_step(cluster, name)
    time.sleep(seconds)
    last, ended = _next_step(cluster, name)
    return (last - first) / (ended - began)


def _next_step(cluster: Cluster, name: str) -> tuple[int, float]:
    """The next step to be done and when that was, as exactly as polling shows it."""
    before = now = steps_done(cluster.output(name))
    deadline = time.monotonic() + START_SECONDS
    while now == before and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS / 10)
        now = steps_done(cluster.output(name))
    return now, time.monotonic()


def _service(cluster: Cluster, member: Member, port: int, cpus: float, timing: Timing) -> Solo:
    """What it answers when asked as fast as it can, and its latency at the target's rate."""
    _wait(cluster, member.name, lambda output: "listening" in output)
    rate, _ = report(member, port, timing.solo_seconds)
    if not member.surges:
        return Solo(rate)
    wanted = offered_rate(member, cpus, rate)
    seconds = max(1.0, timing.solo_seconds * LATENCY_SHARE)
    _, latency = report(member, port, seconds, "--rate", f"{wanted:g}")
    return Solo(rate, latency)


def report(member: Member, port: int, seconds: float, *options: str) -> tuple[float, float]:
    """The load generator's last line: throughput a second, and the median latency in seconds.

    Raises:
        Unavailable: It has none.
    """
    command = [*drive(member, port), "--seconds", f"{round(seconds)}", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = list(re.finditer(REPORT_REGEX, done.stdout))
    if done.returncode or not found:
        why = done.stderr.strip().splitlines()[-1:] or ["it says nothing"]
        raise Unavailable(f"the load on {member.name}: {why[0]}")
    return float(found[-1]["throughput"]), float(found[-1]["median_ms"]) / 1000
