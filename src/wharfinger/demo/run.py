"""The demo from top to bottom."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wharfinger.catalog.known_files import load_known, save_known
from wharfinger.catalog.listing import groups_run_by
from wharfinger.demo.cluster import DemoCluster
from wharfinger.demo.picture import DemoRun, draw
from wharfinger.demo.solo import free_ports
from wharfinger.demo.stage import DemoStage, Rival
from wharfinger.demo.timeline import Row, Timeline, busy_seconds
from wharfinger.demo.verdict import judge, read_clients
from wharfinger.demo.workloads import (
    BASELINE,
    FILLERS,
    SERVICES,
    SURGE,
    SURGING,
    TARGETED,
    manifests,
    targets,
)
from wharfinger.errors import Unavailable
from wharfinger.manifest import load_manifests

FULL_SECONDS = 110.0
"""Length of a run unless asked otherwise; measurements are shortened with it."""
SOLO_SECONDS = 3.0
PROFILE_SECONDS = {"profile_seconds": 5.0, "service_profile_seconds": 8.0}
"""Services' clients see nothing for a few seconds."""
MEMORY_BYTES = 192 * 1024**2
"""What each workload's manifest states."""
NOISE = 0.15
"""Of the CPUs: what the rest of the machine may use without a warning."""


@dataclass(slots=True)
class Demo:
    """One demo.

    Attributes:
        directory: Everything is in it; must exist and be empty.
        stage: What it runs on.
        tell: Shows a line of progress; each of the steps begins with its number in brackets.
        show: Shows a run, after each sample.
        policy: Of the first run.
        keep: Leave the manager of the first run up.
    """

    directory: Path
    stage: DemoStage
    tell: Callable[[str], None]
    show: Callable[[Timeline], None]
    policy: str
    seed: int
    run_seconds: float
    picture: Path
    keep: bool
    # What is known before the runs: CPUs of all servers, and what the manifests are filled with.
    _cpus: float = 0.0
    _servers: int = 0
    _needs: dict[str, float] = field(default_factory=dict)
    _values: dict[str, object] = field(default_factory=dict)
    _reserved: dict[str, float] = field(default_factory=dict)
    _notes: list[str] = field(default_factory=list)
    _platforms: dict[str, str] = field(default_factory=dict)

    def run(self) -> dict[str, Any]:
        """Measure, state targets, run twice, compare: what ``-o json`` prints (docs/demo.md).

        ``WharfingerError`` where a manager or a program does not run. However it leaves, everything
        that was started has ended.
        """
        with self.stage:
            self._prepare()
            self._tell_targets()
            options = ("--known", str(self._save_known_programs()))
            with self._manager("state", self.policy, *options) as cluster:
                self.tell(f"[3/5] run 1: eight programs under {self.policy}, load surges half-way")
                main = self._run_once(cluster)
                if not self.keep:
                    cluster.end()
                self.tell(f"[4/5] run 2: the same under {self.stage.rival}")
                with self.stage.baseline(self.directory / "baseline") as other:
                    baseline = self._run_once(other)
                self.tell("[5/5] result")
                missing = picture_note((main, baseline), self.picture)
                cluster.leave()
        return {
            **main.result,
            "baseline": baseline.result,
            "seed": self.seed,
            "notes": [*self._notes, *missing],
            "files": [] if missing else [str(self.picture)],
        }

    def _manager(self, name: str, policy: str, *options: str) -> DemoCluster:
        return self.stage.manager(self.directory / name, policy, *options)

    def _shortened(self, seconds: float) -> float:
        return max(1.0, seconds * min(1.0, self.run_seconds / FULL_SECONDS))

    def _prepare(self) -> None:
        self.tell(f"[1/5] each program alone on {self.stage.alone}, to know what it can do here")
        seconds = self._shortened(SOLO_SECONDS)
        with self._manager("solo", BASELINE) as cluster:
            noise = rest_of_machine(cluster.cpu_numbers, seconds / 2)
            cluster.start()
            servers = cluster.client.get("servers")
            check_memory(servers)
            self._cpus, self._servers = self.stage.cpus(servers), len(servers)
            self._platforms = {each["name"]: each["platform"] for each in servers}
            self._needs = self.stage.needs(servers)
            self._reserved = self.stage.reserved(servers, self.seed)
            speeds, latencies = {}, {}
            for name, speed, latency in self.stage.measure(cluster, seconds, self._needs):
                unit = "requests" if name in SERVICES else "steps"
                self.tell(f"      {name}: {speed:.0f} {unit}/s")
                speeds[name], latencies[name] = speed, latency
        self._values = targets(
            speeds, latencies[SURGING], self._needs, self.run_seconds, self.stage.alone_cpus
        )
        self._values |= {name: self._shortened(length) for name, length in PROFILE_SECONDS.items()}
        self._values |= {f"{name}_millicpus": round(1e3 * n) for name, n in self._reserved.items()}
        self._notes = [*limits(servers), *self.stage.notes()]
        if noise > NOISE:
            used = f"others used {noise:.0%} of these CPUs before the demo began"
            self._notes.append(f"{used}: what it shows is noisy")
            self.tell(f"      {self._notes[-1]}")

    def _tell_targets(self) -> None:
        needed = sum(self._needs.values())
        surging = needed + (SURGE - 1) * self._needs[SURGING]
        unit, there = self.stage.unit, self._cpus / self.stage.alone_cpus
        self.tell(
            f"[2/5] targets: shares of that which need {needed:.2f} of {there:.3g} {unit}, "
            f"{surging:.2f} in the surge"
        )
        forms = {"rate": "{:g}/s", "latency_ms": "p95 < {} ms", "seconds": "done in {:.0f} s"}
        for name in TARGETED:
            keys = [key for key in forms if f"{name}_{key}" in self._values]
            target = ", ".join(forms[key].format(self._values[f"{name}_{key}"]) for key in keys)
            self.tell(f"      {name}: {target} (needs {self._needs[name]:.2f} {unit})")

    def _manifests(self, directory: Path, epoch: float) -> str:
        here = {"directory": directory, "epoch": f"{epoch:.3f}", **free_ports()}
        return manifests(self._values | here)

    def _save_known_programs(self) -> Path:
        """The known programs but those that take part: none is classified by its own row."""
        text = self._manifests(self.directory, 0)
        workloads = load_manifests(text, working_directory=str(self.directory))
        own = (groups_run_by(workload.run.command) for workload in workloads)
        known = load_known().without(frozenset().union(*own))
        save_known(self.stage.learn(known, self.directory / "measured"), self.directory / "known")
        return self.directory / "known"

    def _run_once(self, cluster: Rival) -> DemoRun:
        cluster.start()
        timeline = Timeline(cluster.policy, time.time(), self._cpus, self._platforms)
        cluster.submit(self._manifests(cluster.work, timeline.epoch))
        timeline.watch(cluster, self.run_seconds, self.show)
        clients = {name: read_clients(cluster.work / f"{name}.clients") for name in SERVICES}
        result = judge(timeline, clients, self._needs, self._reserved, self.run_seconds)
        cluster.clear()
        return DemoRun(timeline, clients, result, self.run_seconds / 2)


def rest_of_machine(cpus: Sequence[int], seconds: float) -> float:
    """Share of these CPUs in use before the demo starts anything; 0 = unknown."""
    before, began = busy_seconds(cpus), time.monotonic()
    time.sleep(seconds)
    after, span = busy_seconds(cpus), time.monotonic() - began
    return 0.0 if before is None or after is None else (after - before) / (len(cpus) * span)


def check_memory(servers: Sequence[Row]) -> None:
    """Raise ``Unavailable`` where the workloads do not fit into memory together."""
    fitting = sum(server["memory_bytes"] // MEMORY_BYTES for server in servers)
    needed = len(TARGETED) + len(FILLERS)
    if fitting < needed:
        room = f"memory for {fitting} of {needed} programs of {MEMORY_BYTES >> 20}Mi"
        wrong = f"this machine is too small for the demo: its servers have {room}"
        raise Unavailable(f"{wrong}; free some, or use a larger one")


def limits(servers: Sequence[Row]) -> list[str]:
    """What this machine does not let the demo show."""
    # What is missing, without why and the mend: those `describe server` tells.
    conditions = {
        condition["name"]: condition["message"].partition(": ")[0]
        for server in servers
        for condition in server["conditions"]
    }
    notes = [f"{name}: {message}" for name, message in conditions.items()]
    if conditions:
        notes.append("a manager of your own says how to mend that: wharfinger describe server")
    if len(servers) == 1:
        lost = "nothing can be placed elsewhere or moved, and there is more contention"
        notes.insert(0, f"one CPU, so one server: {lost}")
    return notes


def picture_note(runs: Sequence[DemoRun], path: Path) -> list[str]:
    """Draw; why there is no picture, where there is none."""
    try:
        draw(runs, path)
    except OSError as error:
        return [f"no picture: {path}: {error.strerror or error}"]
    except ImportError:
        return ["no picture: matplotlib is not installed; pip install '.[demo]'"]
    return []
