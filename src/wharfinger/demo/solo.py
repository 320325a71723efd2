"""Each program alone on one CPU, through the same engine: targets are shares of what it does."""

import contextlib
import json
import re
import socket
import subprocess
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from wharfinger.demo.cluster import ENDED, DemoCluster
from wharfinger.demo.workloads import SERVICES, SURGING, TARGETED, manifests, offered_rate
from wharfinger.errors import Unavailable
from wharfinger.ibench.driver import start
from wharfinger.ibench.sources import SourceSetting, source_named
from wharfinger.manifest import load_manifests, workload_to_manifest

REPORT_REGEX = r"throughput=(?P<throughput>[0-9.]+) .*p50_ms=(?P<median_ms>[0-9.]+)"
START_SECONDS = 20.0
POLL_SECONDS = 0.005
ENDLESS = 10**9
WARM_STEPS = 2
"""The first steps are not counted: pages and caches fill."""
LATENCY_SHARE = 0.7
"""Of the seconds, for the latency at the target's rate."""


@contextlib.contextmanager
def others_busy(cpus: Sequence[int]) -> Iterator[None]:
    """Keep the other servers' CPUs busy meanwhile, as they are when all run.

    CPUs may share a core, visibly or not: a program is then faster by half while the other is
    idle, and targets that are shares of that speed could not all be kept at once.
    """
    if not cpus:
        yield
        return
    with start(SourceSetting(source_named("integer"), cpus=tuple(cpus))) as source:
        source.set_intensity(100.0)
        yield


def free_ports() -> dict[str, object]:
    """A TCP port that is free now, for each service's manifest."""
    ports: dict[str, object] = {}
    with contextlib.ExitStack() as probes:
        for name in SERVICES:
            probe = probes.enter_context(socket.socket())
            probe.bind(("127.0.0.1", 0))
            ports[f"{name}_port"] = probe.getsockname()[1]
    return ports


def measure_alone(
    cluster: DemoCluster,
    seconds: float,
    needs: Mapping[str, float],
    requires: Mapping[str, str] | None = None,
) -> Iterator[tuple[str, float, float]]:
    """Run each program that will have a target alone on a cluster where nothing else runs.

    Args:
        cluster: Up, and empty.
        seconds: How long each is measured.
        needs: By name, CPUs that its target is to need.
        requires: Labels of the server that it is to run on.

    Yields:
        Its name; steps a second, or requests answered when they come as fast as they can; the
        median latency of the service that surges at the rate of its target, else 0.
    """
    servers = [server["cpus"] for server in cluster.client.get("servers")]
    fixed = {"directory": cluster.work, "epoch": 0, **free_ports()}
    endless = {f"{name}_total": ENDLESS for name in TARGETED}
    text = manifests(defaultdict(lambda: 100, fixed | endless))
    for workload in load_manifests(text, working_directory=str(cluster.work)):
        if workload.name not in TARGETED:
            continue
        made: dict[str, Any] = workload_to_manifest(workload, redact=False)
        run, load = made["spec"]["run"], workload.measure.load_command
        # One whole server; less than a CPU where a quota on the manager leaves less.
        resources = {**made["spec"]["resources"], "cpu": f"{int(min(servers) * 1000)}m"}
        # A service would have to state a target.
        made["spec"] = {"type": "single-node", "resources": resources, "run": run}
        if requires:
            made["spec"]["requires"] = dict(requires)
        cluster.submit(json.dumps(made))
        if load is None:
            speed, latency = _steps_per_second(cluster, workload.name, seconds), 0.0
        else:
            command = load[: load.index("--epoch")]
            speed, latency = _service(
                cluster, workload.name, command, needs[workload.name], seconds
            )
        cluster.clear(drop_records=True)
        yield workload.name, speed, latency


def _wait(cluster: DemoCluster, name: str, ready: Callable[[str], bool]) -> str:
    deadline = time.monotonic() + START_SECONDS
    while not ready(output := cluster.output(name)):
        workload = next(w for w in cluster.workloads() if w["name"] == name)
        if workload["phase"] in ENDED or time.monotonic() > deadline:
            last = output.strip().splitlines()[-1:] or [workload["message"]]
            raise Unavailable(f"{name} does not run alone: {workload['phase']}: {last[0]}")
        time.sleep(POLL_SECONDS)
    return output


def _steps_done(output: str) -> int:
    r"""The newest ``done=N``; 0 = none yet.

    >>> _steps_done("done=1\ndone=2\ndon")
    2
    """
    return int([0, *re.findall(r"done=([0-9]+)\n", output)][-1])


def _steps_per_second(cluster: DemoCluster, name: str, seconds: float) -> float:
    """From one step's end after the warm-up to another's, as exactly as polling shows it."""

    def next_step(after: int) -> tuple[int, float]:
        output = _wait(cluster, name, lambda output: _steps_done(output) > after)
        return _steps_done(output), time.monotonic()

    first, began = next_step(WARM_STEPS)
    time.sleep(seconds)
    last, ended = next_step(_steps_done(cluster.output(name)))
    return (last - first) / (ended - began)


def _service(
    cluster: DemoCluster, name: str, load: Sequence[str], needs_cpus: float, seconds: float
) -> tuple[float, float]:
    """What it answers when asked as fast as it can, and its latency at the target's rate."""
    _wait(cluster, name, lambda output: "listening" in output)
    rate, _ = _load(name, load, seconds)
    if name != SURGING:
        return rate, 0.0
    offered = [*load, "--rate", f"{offered_rate(needs_cpus, rate):g}"]
    return rate, _load(name, offered, max(1.0, seconds * LATENCY_SHARE))[1]


def _load(name: str, command: Sequence[str], seconds: float) -> tuple[float, float]:
    """The load generator's last line: throughput a second, and the median latency in seconds."""
    timed = [*command, "--seconds", f"{round(seconds)}"]
    done = subprocess.run(timed, capture_output=True, text=True, check=False)
    lines = list(re.finditer(REPORT_REGEX, done.stdout))
    if done.returncode or not lines:
        why = done.stderr.strip().splitlines()[-1:] or ["it says nothing"]
        raise Unavailable(f"the load on {name}: {why[0]}")
    return float(lines[-1]["throughput"]), float(lines[-1]["median_ms"]) / 1000
