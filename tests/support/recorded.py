"""Runs of which the decisions are known: simulated ones, stories told by hand, one in memory.

``digest_of`` says what was decided in a run. ``verdict_of`` is the only place that reads events:
where they are renamed it follows, and what it makes of them stays.
"""

import hashlib
import json
import math
import platform
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from tests.support.cluster import server, workload
from tests.support.measured_tables import write_tables
from tests.support.spreading import policy_named
from tests.support.stories import STORIES, Story, classified, like, measured, rate
from wharfinger import __version__
from wharfinger.core import events as ev
from wharfinger.core.codec import decode_event, decode_state
from wharfinger.core.pipeline import Core
from wharfinger.core.state import WorkloadRecord
from wharfinger.model.allocation import Placement
from wharfinger.model.workload import Reservation, Run, Workload, WorkloadType
from wharfinger.policies.registry import make_policy
from wharfinger.runtime.runtime import Runtime
from wharfinger.simulator.results.recording import read_recording
from wharfinger.simulator.run import RunSpec, prepare
from wharfinger.store.sqlite import SqliteStore
from wharfinger.testing import EngineFaults, FaultyEngine, MemoryCluster, MemoryEngine

Line = tuple[float, str, bytes]
"""Of a log: time, kind, payload."""
BUSY = str(Path(__file__).parents[1] / "golden" / "scenarios" / "busy.yaml")
_EXAMPLES = Path(__file__).parents[2] / "examples" / "scenarios"
FAILURES, RACK = str(_EXAMPLES / "failures.yaml"), str(_EXAMPLES / "rack.yaml")
TRACE = f"trace:{_EXAMPLES / 'small-trace'}"
MEASURED = "measured:TABLES"
"""Stands for tables that are written for the run."""
OF_THE_MACHINE = ("decision_microseconds", "wall_seconds", "peak_rss", "events")
"""Of the report's numbers those that begin so tell of the simulator's effort."""
SHOWN = (
    "workloads",
    "qos_kept_fraction",
    "performance_mean",
    "target_performance_mean",
    "interference_loss_mean",
    "utilization_cpu_mean",
    "failed",
    "unfinished",
    "wait_seconds_p99",
    "makespan_seconds",
)
"""Numbers of the report that stand beside the digests."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """What came of one run.

    Attributes:
        log: Every event in order.
        report: Its numbers, but for those of the machine; empty = it has none.
    """

    log: list[Line]
    report: Mapping[str, float | int | None] = field(default_factory=dict)


def digest_of(run: Recorded) -> dict[str, Any]:
    """What was decided, as digests, and numbers by which people see what differs.

    ``log`` hangs on the log's form, ``decisions`` does not.
    """
    events = [(time, decode_event(kind, payload)) for time, kind, payload in run.log]
    verdicts = [(time, found) for time, event in events if (found := verdict_of(event))]
    return {
        "log": _sha256(f"{t!r} {kind} ".encode() + _plain(data) for t, kind, data in run.log),
        "decisions": _sha256(_verdict_line(time, verdict) for time, verdict in verdicts),
        "report": _sha256([json.dumps(dict(run.report), sort_keys=True).encode()]),
        "events": _counted(kind for _, kind, _ in run.log),
        "verdicts": _counted(verdict.verb for _, verdict in verdicts),
        "numbers": {key: run.report[key] for key in SHOWN if key in run.report},
    }


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was decided about a workload, and where it is to be."""

    name: str
    verb: str
    placements: tuple[Placement, ...] = ()


def verdict_of(event: ev.Event) -> Verdict | None:
    """What an event decides; ``None`` = it decides nothing that is compared."""
    match event:
        case ev.WorkloadQueued():
            return Verdict(event.name, "queued")
        case ev.WorkloadPlaced():
            return Verdict(event.name, "placed", event.placements)
        case ev.AllocationPlanned():
            return Verdict(event.name, "planned", event.placements)
        case ev.WorkloadSuspended():
            return Verdict(event.name, "suspended")
        case ev.WorkloadResumed():
            return Verdict(event.name, "resumed")
        case ev.WorkloadMigrated():
            return Verdict(event.name, "moved")
        case ev.WorkloadRejected():
            return Verdict(event.name, "rejected")
    return None


def _verdict_line(time: float, verdict: Verdict) -> bytes:
    shares = (
        f"{each.server}={each.allocation.cpu_millicpus}/{each.allocation.memory_bytes}"
        for each in verdict.placements
    )
    return " ".join((repr(time), verdict.name, verdict.verb, *shares)).encode()


def _plain(payload: bytes) -> bytes:
    """Without this program's version."""
    return payload.replace(f'"version":"{__version__}"'.encode(), b'"version":""')


def _sha256(lines: Iterable[bytes]) -> str:
    digest = hashlib.sha256()
    for line in lines:
        digest.update(line + b"\n")
    return digest.hexdigest()


def _counted(words: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(words).items()))


def environment() -> dict[str, str]:
    """On what floats hang: where it is another, they may differ in their last digits."""
    random = np.random.default_rng(1)
    digest = hashlib.sha256()
    for size in (7, 64, 1000):
        values = random.uniform(0.1, 5.0, size)
        for found in (np.exp(values), np.log(values), np.power(values, 1.7), values.sum()):
            digest.update(np.asarray(found).tobytes())
        plain = [(math.exp(v), math.log(v), v**0.3) for v in values.tolist()]
        digest.update(repr(plain).encode())
    for size in (7, 64):
        matrix = random.normal(size=(size, size))
        digest.update(np.linalg.solve(matrix, np.ones(size)).tobytes())
        digest.update(np.linalg.svd(matrix)[1].tobytes() + (matrix @ matrix).tobytes())
    python = ".".join(platform.python_version_tuple()[:2])
    return {"python": python, "numpy": np.__version__, "floats": digest.hexdigest()}


# --- simulated runs ---------------------------------------------------------------------------

BASELINES = ("least-loaded", "round-robin", "random", "sparrow", "reservation")
"""Policies that compare few floats: they decide the same on every machine."""


def _specs(*specs: RunSpec) -> dict[str, RunSpec]:
    def name(spec: RunSpec) -> str:
        scenario = Path(spec.scenario).stem.removeprefix("trace:").removesuffix(":TABLES")
        return f"{scenario}-{spec.policy}-{spec.seed}"

    return {name(spec): spec for spec in specs}


SIMULATED = _specs(
    RunSpec("synthetic", "least-loaded", seed=3, servers=20, workloads=120),
    RunSpec("synthetic", "round-robin", seed=4, servers=20, workloads=120),
    RunSpec("synthetic", "random", seed=5, servers=20, workloads=120),
    RunSpec("synthetic", "reservation", seed=6, servers=20, workloads=120),
    RunSpec("synthetic", "sparrow", seed=7, servers=20, workloads=120),
    RunSpec("synthetic", "oracle", seed=2, servers=8, workloads=60),
    RunSpec("synthetic", "quasar", seed=1, servers=6, workloads=20),
    RunSpec("services", "quasar", seed=2, servers=5, workloads=12),
    RunSpec("services", "feedback", seed=2, servers=5, workloads=20),
    RunSpec("services", "autoscale", seed=3, servers=5, workloads=20),
    RunSpec(MEASURED, "quasar", seed=1, servers=6, workloads=30),
    RunSpec(MEASURED, "oracle", seed=1, servers=6, workloads=30),
    RunSpec(MEASURED, "least-loaded", seed=1, servers=6, workloads=30),
    RunSpec(FAILURES, "sparrow", seed=3, servers=30, workloads=100),
    RunSpec(FAILURES, "quasar", seed=3, servers=10, workloads=20),
    RunSpec(TRACE, "quasar", seed=1),
    RunSpec(TRACE, "random", seed=1),
    RunSpec(BUSY, "quasar", seed=2),
    RunSpec(BUSY, "quasar", seed=4, confidence=0.6),
    RunSpec(BUSY, "feedback", seed=2),
    RunSpec(BUSY, "autoscale", seed=2),
    RunSpec(BUSY, "oracle", seed=2),
    RunSpec(BUSY, "reservation", seed=2),
    RunSpec("paragon-local-medium", "feedback", seed=4, servers=30, workloads=40),
    RunSpec("paragon-ec2-high", "oracle", seed=4, servers=20, workloads=40),
    RunSpec("paragon-ec2-oversubscribed", "autoscale", seed=5, servers=10, workloads=30),
    RunSpec("paragon-azure", "least-loaded", seed=1, servers=10, workloads=40),
    RunSpec("quasar-batch", "round-robin", seed=1, servers=10, workloads=20),
    RunSpec("quasar-stateful", "feedback", seed=1, servers=10, workloads=12),
    RunSpec("quasar-webserver-flat", "sparrow", seed=1, servers=10, workloads=20),
    RunSpec("paragon-local-phases", "quasar", seed=5, servers=40, workloads=8),
    RunSpec("quasar-ec2-light", "quasar", seed=1, servers=12, workloads=12),
    RunSpec("paragon-ec2-low", "quasar", seed=2, servers=10, workloads=5),
    RunSpec("ibench-mix", "ibench", seed=1, servers=8, workloads=24, regime="overcommitted"),
    RunSpec(RACK, "quasar", seed=4, servers=6, workloads=14, regime="contended"),
    RunSpec("paragon-local-phases", "paragon", seed=3, servers=40, workloads=12),
    RunSpec("paragon-ec2-high", "paragon", seed=1, servers=14, workloads=20, regime="contended"),
    RunSpec("paragon-local-medium", "paragon", admission="arq", seed=6, servers=20, workloads=24),
    RunSpec("pythia-cluster", "pythia", seed=1, servers=6, workloads=20),
)
SLOW = (
    "quasar-ec2-light-quasar-1",
    "paragon-ec2-low-quasar-2",
    "rack-quasar-4",
    "paragon-local-phases-quasar-5",
    "measured-oracle-1",
    "quasar-stateful-feedback-1",
    "paragon-local-phases-paragon-3",
    "paragon-ec2-high-paragon-1",
    "paragon-local-medium-paragon-6",
    "pythia-cluster-pythia-1",
)
"""Runs that take seconds."""


def simulated(spec: RunSpec) -> Recorded:
    """Run it; its log as a recording has it."""
    with tempfile.TemporaryDirectory(prefix="wharfinger-test-") as folder:
        path = Path(folder, "run.jsonl")
        scenario = spec.scenario
        if scenario == MEASURED:
            scenario = f"measured:{write_tables(Path(folder, 'tables'))}"
        outcome = prepare(replace(spec, scenario=scenario, record=path)).run()
        log = [(entry.time, entry.kind, entry.payload) for entry in read_recording(path)[1]]
    report = {k: v for k, v in outcome.summary.items() if not k.startswith(OF_THE_MACHINE)}
    return Recorded(log, report)


# --- runs of a core that is told by hand, and of a whole runtime ------------------------------


class Narrow(Story):
    """Lets in as few as can wait, so that somebody is rejected."""

    def make_manager(self, snapshot: bytes | None) -> Core:
        """With an admission of two."""
        return Core(
            policy_named(self.policy, self.planner, self.contention, max_waiting=2),
            state=None if snapshot is None else decode_state(snapshot),
            mode=self.mode,
        )


def every_kind() -> Story:
    """What no simulated run has: users who change their minds, refusals, a damaged log."""
    story = Narrow(servers=1)
    story.submit(rate("encode", 200.0))
    story.profile("encode", classified(), measured())
    story.run("encode")
    story.submit(workload("filler", best_effort=True))
    story.tell(ev.ClassificationFailed(story.key("filler"), "no such program"))
    story.run("filler")
    story.measure(20, encode=205.0, filler=0.3)
    story.measure(45, encode=150.0, filler=0.3)
    story.measure(30, encode=203.0)
    story.now += 700
    story.tell(ev.TimePassed())
    story.measure(20, encode=203.0)
    story.tell(ev.ServerReported(server("later", 2, 4096)))
    for name, millicpus in (("plain", 500), ("other", 500), ("huge", 9000), ("large", 9000)):
        story.submit(workload(name, millicpus))
        story.profile(name, like(5.0))
    story.submit(workload("one-too-many"))
    story.run("plain")
    story.tell(ev.StartFailed(story.key("other"), "no memory", retryable=True))
    story.now += 60
    story.tell(ev.TimePassed())
    for action in story.tell(ev.WorkloadUpdated(workload("plain", 700))).actions:
        story.tell(ev.ResizeFailed(story.key("plain"), "it does not fit", action.placements))
    story.obey(story.tell(ev.WorkloadUpdated(workload("plain", 600))).actions)
    story.tell(ev.WorkloadRevoked("huge"), ev.WorkloadForgotten("huge"))
    story.tell(ev.WorkloadFinished(story.key("plain"), 1, None, "exited", 3.0))
    story.start()
    story.tell(ev.HistoryLost("the end is gone"))
    story.sync()
    story.tell(ev.WorkloadVanished(story.key("filler"), "nobody saw how"))
    story.tell(ev.ServerLeft("later", "it was taken away"))
    return story


def in_memory(seed: int) -> Recorded:
    """A runtime with a store, three managers one after another, and an engine that fails."""
    random, cluster, clock = Random(seed), MemoryCluster(), [1000.0]
    faults = EngineFaults(delay=0.2, duplicate=0.2, reorder=0.2, refuse=0.1, crash=0.1)
    engine = FaultyEngine(lambda: MemoryEngine(cluster), random, faults)
    log: list[Line] = []
    with tempfile.TemporaryDirectory(prefix="wharfinger-test-") as folder:
        for life in range(3):
            runtime = _runtime(Path(folder), engine, lambda: clock[0])
            for number in range(8):
                run = Run(random.choice([("exit", "3"), ("sleep", "5"), ("serve",), ("missing",)]))
                reservation = Reservation(random.choice([300, 800, 9000]), 2**20)
                name = f"w{life}-{number}"
                runtime.submit([Workload(name, WorkloadType.BATCH, run, reservation=reservation)])
                if number % 3 == 2:
                    runtime.delete(random.choice(list(runtime.manager.state.workloads)))
                for _ in range(3):
                    clock[0] += 2.5
                    cluster.advance(2.5)
                    runtime.pump()
                    runtime.tick()
                for key in cluster.running()[2:]:
                    cluster.end(key, 0)
            log = [(each.time, each.kind, each.payload) for each in runtime.store.read()]
            nonces = runtime.manager.state.nonces
            engine.close()
            runtime.store.close()
    return Recorded([(time, kind, _unnamed(payload, nonces)) for time, kind, payload in log])


def _runtime(folder: Path, engine: FaultyEngine, clock: Callable[[], float]) -> Runtime:
    runtime = Runtime(
        lambda state: Core(make_policy("least-loaded"), state=state),
        engine,
        SqliteStore.open(folder),
        clock,
    )
    runtime.start()
    return runtime


def _unnamed(payload: bytes, nonces: list[str]) -> bytes:
    """With numbers for the words by which managers tell their starts apart: they are drawn."""
    for number, nonce in enumerate(nonces):
        payload = payload.replace(nonce.encode(), f"manager{number}".encode())
    return payload


TOLD: dict[str, Callable[[], Recorded]] = {
    **{
        f"story-{name}": lambda tell=tell: Recorded(tell()[0].log) for name, tell in STORIES.items()
    },  # type: ignore[misc] # bound now
    "story-every-kind": lambda: Recorded(every_kind().log),
    **{f"memory-{seed}": lambda seed=seed: in_memory(seed) for seed in (1, 2)},  # type: ignore[misc]
}


def recorded(name: str) -> Recorded:
    """The run of that name, run now."""
    return TOLD[name]() if name in TOLD else simulated(SIMULATED[name])


NAMES = (*SIMULATED, *TOLD)


# --- what a log makes of a core ---------------------------------------------------------------


_WORDS_OF_0_1 = {"migrated": "moved", "unchanged": "kept"}


def summary_of(manager: Core) -> dict[str, Any]:
    """What the core knows, in words that people read and that hang on no class's name."""
    state = manager.state
    return {
        "servers": {
            name: f"{each.cpu_millicpus}m {each.memory_bytes} {each.platform.name}"
            for name, each in state.servers.items()
        },
        "workloads": {name: _record_line(each) for name, each in state.workloads.items()},
        "waiting": [name for name, each in state.workloads.items() if each.phase == "queued"],
        "adjustments": {
            _WORDS_OF_0_1.get(str(kind), str(kind)): count
            for kind, count in state.adjustment_counts.items()
        },
        "next": state.next_uid,
        "strays": state.strays,
    }


def _record_line(record: WorkloadRecord) -> str:
    shares = (
        f"{each.server}={each.allocation.cpu_millicpus}/{each.allocation.memory_bytes}"
        for each in (*record.placements, *record.planned)
    )
    known = record.classification is not None and "classified"
    end = "" if record.exit_code is None else f"exit={record.exit_code}"
    counts = f"starts={record.starts} moves={record.migrations} suspended={record.suspensions}"
    words = (record.phase, record.queue, *shares, known, counts, end, record.reason)
    return " ".join(str(word) for word in words if word)
