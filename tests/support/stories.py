"""Workloads in every situation that an operator asks about, on a core driven by hand.

Each story is a function that takes a new cluster there and names the workload to look at. Tests
hold what the API and ``explain`` say of it; the pages' examples are printed from the same.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tests.support.cluster import Cluster, running, server, workload
from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.core.lifecycle import Phase
from wharfinger.core.pipeline import Mode
from wharfinger.core.seams.estimation import Profiling
from wharfinger.engines.base import Usage
from wharfinger.model.decisions import Decision, ReasonCode, Stage
from wharfinger.model.interference import SharedResource
from wharfinger.model.performance import Quantity, Reading, Sample
from wharfinger.model.profile import (
    Classification,
    Curve,
    Entry,
    Estimate,
    Measurements,
    ProfilingPlan,
)
from wharfinger.model.view import Request, View
from wharfinger.model.workload import Target, Workload
from wharfinger.service import cluster, explanations, queues, workloads

NOW = 1_700_000_000.0
MIB = 2**20
INTEGER, STORAGE = SharedResource.INTEGER, SharedResource.STORAGE_BANDWIDTH


class ProfileTargets:
    """Plans a copy for whatever has a target; the rest makes a cold start."""

    name = "joint-profiling"

    def beside(self, request: Request, view: View) -> None:
        """What starts is not profiled."""

    def plan(self, request: Request, view: View) -> Profiling | None:
        wanted = request.workload
        if wanted.best_effort or wanted.target is None:
            message = "it has no target to be sized for: a cold start"
            return Profiling(Decision(Stage.PROFILING, self.name, True, ReasonCode.OK, message))
        free = view.cpu_capacity - view.cpu_allocated
        servers = [name for name, room in zip(view.names, free, strict=True) if room >= 250]
        if not servers:
            message = "no server has 0.25 CPU free for a profiling copy"
            change = "room on a server on which no other copy runs (0 run now)"
            held = Decision(Stage.PROFILING, self.name, False, ReasonCode.NO_ROOM, message, change)
            return Profiling(held)
        message = (
            f"a copy runs for 8 s on {servers[0]} with 0.5 and 0.25 CPU, beside integer and "
            "storage-bandwidth"
        )
        plan = ProfilingPlan(servers[0], (500, 250), 64 * MIB, (INTEGER, STORAGE), 8.0)
        decision = Decision(Stage.PROFILING, self.name, True, ReasonCode.OK, message)
        return Profiling(decision, plan)


class Story(Cluster):
    """A cluster under ``quasar`` with two servers of one CPU each."""

    def __init__(self, *, mode: Mode = Mode.ACT, servers: int = 2, policy: str = "quasar") -> None:
        super().__init__(policy, mode=mode, planner=ProfileTargets())
        self.now = NOW
        for index in range(servers):
            self.tell(ev.ServerReported(server(f"server{index}", 1, 2048)))
        self.sync()

    # --- what happens ------------------------------------------------------------------------

    def submit(self, wanted: Workload) -> None:
        """Hand in."""
        self.tell(ev.WorkloadSubmitted(wanted))
        self.now += 1

    def profile(self, name: str, known: Classification, found: Measurements | None = None) -> None:
        """Its copy has run, and the classifier has answered."""
        self.now += 9
        if found is not None:
            self.tell(ev.ProfilingFinished(self.key(name), found))
        self.tell(ev.WorkloadClassified(self.key(name), known))

    def run(self, *names: str) -> None:
        """They start."""
        self.now += 1
        running(self, *names)

    def measure(self, seconds: float, **rates: float) -> None:
        """Measure every five seconds for so long, and let the engine do what it is asked to."""
        for _ in range(int(seconds // 5)):
            self.now += 5
            for place in list(self.manager.state.servers):
                samples = tuple(
                    Sample(record.key, self._readings(record.name, rate))
                    for name, rate in rates.items()
                    if (record := self.record(name)).phase is Phase.RUNNING
                    and record.placements[0].server == place
                )
                if samples:
                    self.obey(self.tell(ev.ServerMeasured(place, samples)).actions)

    def _readings(self, name: str, rate: float) -> dict[Quantity, Reading]:
        held = self.record(name).placements[0].allocation
        used = rate if held.best_effort else held.cpu_millicpus / 1000
        cpu = Reading(used, "CPU time (proxy)", trusted=False)
        if held.best_effort:
            return {Quantity.CPU: cpu}
        return {Quantity.RATE: Reading(rate, "progress lines"), Quantity.CPU: cpu}

    def obey(self, actions: tuple[act.Action, ...]) -> None:
        """Resize what is to be resized."""
        for action in actions:
            if isinstance(action, act.ResizeAllocation):
                self.tell(ev.AllocationResized(action.key, action.placements))

    # --- what is shown -----------------------------------------------------------------------

    def explain(self, name: str) -> dict[str, Any]:
        """As ``GET /v1/workloads/{name}/explain`` answers."""
        record = self.record(name)
        used = self.usage().get(name)
        found = explanations.explanation(self.manager, record, self.now, used and used[0])
        return found.as_json()

    def usage(self) -> dict[str, Any]:
        """As the API has it, by name; each with itself as JSON."""
        found = {}
        for record in self.manager.state.workloads.values():
            if record.on_server:
                shown = workloads.usage(
                    self.manager, record, Usage(12.0, 20 * MIB, 2), 0.0, self.now
                )
                found[record.name] = (shown, shown.as_json())
        return found

    def servers(self) -> list[dict[str, Any]]:
        """As ``GET /v1/servers`` answers."""
        return [server.as_json() for server in cluster.servers(self.manager)]

    def queues(self) -> list[dict[str, Any]]:
        """As ``GET /v1/queues`` answers."""
        return [queue.as_json() for queue in queues.queues(self.manager, self.now)]


# --- what they are made of ------------------------------------------------------------------


def rate(name: str, per_second: float, **changes: Any) -> Workload:
    """A batch job with a target rate."""
    return replace(workload(name), target=Target(rate_per_second=per_second), **changes)


def curve(at_one_cpu: float, std: float = 0.06) -> Curve:
    """Performance that grows a little slower than CPU; measured at a quarter and a half."""
    columns = (100, 250, 500, 750, 1000)
    stds = (2 * std, std / 2, std / 2, std, 1.5 * std)
    return Curve(
        columns,
        tuple(
            Estimate(at_one_cpu * (cpu / 1000) ** 0.9, deviation)
            for cpu, deviation in zip(columns, stds, strict=True)
        ),
    )


def classified(
    at_one_cpu: float = 300.0, *, tolerates: float = 70.0, causes: float = 20.0
) -> Classification:
    """By two measured allocations and two sources."""
    return Classification(
        estimator="gaussian",
        version="1",
        curves={Quantity.RATE: curve(at_one_cpu)},
        shape=curve(1.0),
        tolerated={INTEGER: Estimate(tolerates, 6.0), STORAGE: Estimate(90.0, 12.0)},
        caused={INTEGER: Estimate(causes, 5.0), STORAGE: Estimate(3.0, 4.0)},
        measured=5,
        scores_measured=True,
    )


def measured(at_one_cpu: float = 300.0, *, tolerates: float = 70.0) -> Measurements:
    """What the copy's runs found."""
    row = {cpu: Entry(curve(at_one_cpu).at(cpu).mean, 0.03) for cpu in (500, 250)}
    return Measurements(
        performance={Quantity.RATE: row},
        tolerated={INTEGER: Entry(tolerates, 5.0), STORAGE: Entry(100.0, 5.0, censored=True)},
        caused={INTEGER: Entry(20.0, 5.0)},
        silent={"caused/storage-bandwidth": "the disk's own noise was larger"},
        runs=3,
        seconds=9.2,
    )


def _every_source(score: float) -> dict[SharedResource, Estimate]:
    return dict.fromkeys(SharedResource, Estimate(score, 5.0))


def like(causes: float = 60.0) -> Classification:
    """Best-effort work: nothing of its own is measured."""
    return Classification(
        "gaussian", "1", shape=curve(1.0, 0.3), caused={STORAGE: Estimate(causes, 10.0)}
    )


def _placed(story: Story, name: str = "encode", per_second: float = 120.0) -> None:
    story.submit(rate(name, per_second))
    story.profile(name, classified(), measured())
    story.run(name)


def _filler(story: Story, name: str = "filler") -> None:
    story.submit(workload(name, best_effort=True))
    story.profile(name, like(0.0))
    story.run(name)


# --- the stories ------------------------------------------------------------------------------


def placed() -> tuple[Story, str]:
    """It runs and keeps its target, as predicted."""
    story = Story()
    _placed(story)
    story.measure(30, encode=127.0)
    return story, "encode"


def waiting_for_room() -> tuple[Story, str]:
    """Every server has too little left."""
    story = Story()
    for name in ("first", "second"):
        _placed(story, name, 220.0)
    story.submit(rate("third", 200.0))
    story.profile("third", classified(), measured())
    return story, "third"


def neighbour_off_prediction() -> tuple[Story, str]:
    """The only server has a resident that misses its target."""
    story = Story(servers=1)
    _placed(story)
    story.submit(rate("late", 60.0))
    story.measure(5, encode=70.0)
    story.profile("late", classified(), measured())
    return story, "late"


def would_disturb() -> tuple[Story, str]:
    """Best-effort work that presses the disk more than a resident bears."""
    story = Story(servers=1)
    story.submit(rate("database", 120.0))
    known = classified()
    sensitive = replace(known, tolerated={**known.tolerated, STORAGE: Estimate(20.0, 5.0)})
    story.profile("database", sensitive, measured())
    story.run("database")
    story.submit(workload("backup", best_effort=True))
    story.profile("backup", like(60.0))
    return story, "backup"


def target_too_high() -> tuple[Story, str]:
    """No server reaches it, even alone."""
    story = Story()
    story.submit(rate("greedy", 900.0))
    story.profile("greedy", classified(), measured())
    return story, "greedy"


def being_profiled() -> tuple[Story, str]:
    """Its copy runs."""
    story = Story()
    story.submit(rate("encode", 120.0))
    story.now += 4
    return story, "encode"


def waiting_for_profiling() -> tuple[Story, str]:
    """There is no room for a copy."""
    story = Story(servers=1)
    _placed(story, "large", 240.0)
    story.submit(rate("encode", 120.0))
    return story, "encode"


def profiling_failed() -> tuple[Story, str]:
    """The copy gave nothing; it makes a cold start."""
    story = Story()
    story.submit(rate("encode", 120.0))
    silent = {"copy": "the copy ended at once with exit status 2"}
    story.profile(
        "encode",
        Classification("gaussian", "1", shape=curve(1.0, 0.4)),
        Measurements(silent=silent, runs=1, seconds=0.4),
    )
    story.run("encode")
    return story, "encode"


def cold_start() -> tuple[Story, str]:
    """Never copied: placed by its reservation, learnt from as it runs."""
    story = Story()
    story.submit(rate("encode", 120.0))
    story.profile("encode", Classification("gaussian", "1", shape=curve(1.0, 0.4)), Measurements())
    story.run("encode")
    story.measure(30, encode=240.0)
    return story, "encode"


def resized() -> tuple[Story, str]:
    """Load has grown; it got more CPU, and that helped."""
    story = Story()
    _placed(story)
    story.measure(20, encode=126.0)
    story.measure(15, encode=80.0)
    story.measure(30, encode=129.0)
    return story, "encode"


def _suspending() -> Story:
    story = Story(servers=1)
    _placed(story, per_second=200.0)
    _filler(story)
    story.measure(20, encode=205.0, filler=0.3)
    story.measure(45, encode=150.0, filler=0.3)
    return story


def suspended() -> tuple[Story, str]:
    """Best-effort work that is suspended."""
    return _suspending(), "filler"


def relieved() -> tuple[Story, str]:
    """The one for which another is suspended."""
    story = _suspending()
    story.measure(10, encode=203.0)
    return story, "encode"


def moved() -> tuple[Story, str]:
    """Nothing helped where it was, and it may be started again."""
    story = Story()
    run = replace(workload("encode").run, restartable=True)
    story.submit(rate("encode", 230.0, run=run))
    story.profile("encode", classified(), measured())
    story.run("encode")
    record = story.record("encode")
    while record.phase is not Phase.MIGRATING and story.now < NOW + 300:
        story.measure(5, encode=120.0)
        if record.reclassifying:
            story.tell(ev.WorkloadClassified(record.key, classified()))
    if record.phase is Phase.MIGRATING:
        story.tell(ev.WorkloadFinished(record.key, None, 15, "killed"))
        story.run("encode")
    story.measure(30, encode=236.0)
    return story, "encode"


def recommended() -> tuple[Story, str]:
    """The manager only says what it would do."""
    story = Story(mode=Mode.RECOMMEND)
    story.submit(rate("encode", 120.0))
    story.profile("encode", classified(), Measurements(runs=4, seconds=8.2))
    return story, "encode"


def best_effort() -> tuple[Story, str]:
    """Uses what the others leave."""
    story = Story()
    _placed(story)
    _filler(story)
    story.measure(10, encode=127.0, filler=0.4)
    return story, "filler"


def no_target() -> tuple[Story, str]:
    """Its reservation, and nothing to keep."""
    story = Story()
    story.submit(workload("plain", 400))
    story.profile("plain", like(5.0))
    story.run("plain")
    return story, "plain"


def completed() -> tuple[Story, str]:
    """It has ended, in time."""
    story = Story()
    done = replace(
        workload("nightly"),
        target=Target(completion_seconds=120.0),
    )
    story.submit(done)
    found = replace(measured(10.0), total=600.0)
    story.profile("nightly", replace(classified(10.0), total=600.0), found)
    story.run("nightly")
    story.now += 85
    story.tell(ev.WorkloadFinished(story.key("nightly"), 0, None, "exited", 51.0))
    return story, "nightly"


def waiting_for_quality() -> tuple[Story, str]:
    """The only server has room, but its resident leaves less quality than it needs (``arq``)."""
    story = Story(servers=1, policy="quasar + arq[platforms=suitable,quality=caused]")
    known = replace(classified(), tolerated=_every_source(95.0), caused=_every_source(55.0))
    for name in ("noisy", "encode"):
        story.submit(rate(name, 60.0, expected_seconds=1200.0))
        story.profile(name, known, measured())
    story.run("noisy")
    return story, "encode"


def overloaded() -> Story:
    """Twice as much comes as one server can do, and waits no longer than a minute (``arq``)."""
    story = Story(servers=1, policy="least-loaded + arq[queues=4]")
    known = replace(like(), tolerated=_every_source(70.0), caused=_every_source(40.0))
    for at in range(60):
        story.submit(replace(workload(f"frame-{at}"), waiting_seconds=60.0))
        story.profile(f"frame-{at}", known)
        story.tell(ev.TimePassed())
        for record in list(story.manager.state.workloads.values()):
            if record.phase is Phase.RUNNING and story.now > record.phase_since + 15:
                story.tell(ev.WorkloadFinished(record.key, 0, None, "exited"))
        placed = [r.name for r in story.manager.state.workloads.values() if r.phase is Phase.PLACED]
        running(story, *placed)
    return story


STORIES: dict[str, Callable[[], tuple[Story, str]]] = {
    story.__name__.replace("_", "-"): story
    for story in (
        placed,
        waiting_for_room,
        neighbour_off_prediction,
        would_disturb,
        target_too_high,
        being_profiled,
        waiting_for_profiling,
        profiling_failed,
        cold_start,
        resized,
        suspended,
        relieved,
        moved,
        recommended,
        best_effort,
        no_target,
        completed,
        waiting_for_quality,
    )
}
