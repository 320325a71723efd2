"""Runs plug-ins in the simulator, and holds each run to its log."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from tests.support.simulations import PLATFORMS, Crowded, batch_job
from tests.support.simulations import servers as make_servers
from wharfinger import __version__
from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.core.codec import decode_state, encode_event, encode_state
from wharfinger.core.pipeline import Core
from wharfinger.core.settings import CoreSettings
from wharfinger.core.state import ManagerState
from wharfinger.policies.registry import make_policy
from wharfinger.runtime.replay import LoggedEvent, replay
from wharfinger.simulator.engine import SimulatedEngine
from wharfinger.simulator.run import KEEP_ENDED, Decider, RunSpec, Simulation
from wharfinger.simulator.scenario.jobs import Job
from wharfinger.simulator.scenario.setup import Costs, Measuring, Setup

CORE = CoreSettings(keep_ended=KEEP_ENDED)


def job(name: str, at: float = 0.0, work: float = 10.0, cpu: int = 2000, priority: int = 0) -> Job:
    made = batch_job(name, at, work, cpu)
    return replace(made, workload=replace(made.workload, priority=priority))


@dataclass
class Trial:
    """One run of a policy.

    Attributes:
        log: Every event, and when.
        asked: Every action, with how many processes had led the log by then.
    """

    simulation: Simulation
    spec: RunSpec
    log: list[tuple[float, ev.Event]]
    asked: list[tuple[int, act.Action]]
    processes: int = 1

    def of(self, kind: type) -> list[Any]:
        return [event for _, event in self.log if isinstance(event, kind)]

    def record(self, name: str) -> Any:
        return self.simulation.manager.find(name)

    def reasons(self, name: str) -> list[str]:
        return [str(made.decision.reason) for made in self.record(name).decisions]

    def watch(self) -> None:
        manager, number = self.simulation.manager, self.processes
        handle = manager.handle

        def logged(now: float, event: ev.Report | ev.ClientRequest) -> Any:
            step = handle(now, event)
            self.log.extend((now, each) for each in step.events)
            self.asked.extend((number, action) for action in step.actions)
            return step

        manager.handle = logged  # type: ignore[method-assign]

    def restart(self) -> None:
        """A new process around what the old one would have found on disk."""
        simulation, self.processes = self.simulation, self.processes + 1
        state = decode_state(encode_state(simulation.manager.state))
        simulation.driver.core = Core(simulation.manager.policy, settings=CORE, state=state)
        self.watch()
        simulation.engine.close()
        simulation.engine = SimulatedEngine(simulation.cluster)
        simulation.engine.open()
        able = simulation.engine.capabilities
        started = simulation.manager.started(f"r{self.processes}", __version__, "simulated", able)
        simulation._requests.appendleft(started)
        simulation.pump()


def run(
    jobs: Sequence[Job],
    *,
    servers: int = 1,
    deciders: Mapping[str, Callable[[Simulation], Decider]] | None = None,
    restart_at: type | None = None,
    costs: Costs | None = None,
    until: float = 400.0,
    **spec: Any,
) -> Trial:
    """Run these to the end; a manager's process ends behind the first event of a kind."""
    setup = Setup(
        "plug-in",
        make_servers(servers),
        tuple(sorted(jobs, key=lambda each: each.arrives_at)),
        Crowded(memory_bytes={platform.name: platform.memory_bytes for platform in PLATFORMS}),
        costs=costs or Costs(start_spread=0.0, acquire_seconds=10.0),
        measuring=Measuring(every_seconds=2.0),
        until_seconds=until,
    )
    told = RunSpec("plug-in", **spec)
    simulation = Simulation(setup, told)
    trial = Trial(simulation, told, [], [])
    trial.watch()
    for name, make in (deciders or {}).items():
        simulation.deciders[name] = make(simulation)
    simulation.start()
    while not simulation.is_over():
        due = simulation.loop.peek()
        if due is None or due > until:
            break
        simulation.step()
        if trial.processes == 1 and restart_at is not None and trial.of(restart_at):
            trial.restart()
    return trial


def check_log(trial: Trial) -> None:
    """The log folds to the state, from any point; and is decided again in the same way."""
    policy = partial(
        make_policy,
        trial.spec.policy,
        admission=trial.spec.admission,
        adaptation=trial.spec.adaptation,
        contention=trial.spec.contention,
        provisioning=trial.spec.provisioning,
        defaults={"seed": trial.spec.seed, "confidence": trial.spec.confidence},
    )

    def make(_started: ev.ManagerStarted, state: ManagerState | None) -> Core:
        stored = None if state is None else decode_state(encode_state(state))
        return Core(policy(), settings=CORE, state=stored)

    expected = encode_state(trial.simulation.manager.state)
    for cut in range(0, len(trial.log), max(1, len(trial.log) // 12)):
        first = Core(policy())
        for time, event in trial.log[:cut]:
            first.apply(time, event)
        rest = Core(policy(), state=decode_state(encode_state(first.state)))
        for time, event in trial.log[cut:]:
            rest.apply(time, event)
        assert encode_state(rest.state) == expected, f"snapshot behind event {cut}"
    entries = [
        LoggedEvent(at, time, *encode_event(event)) for at, (time, event) in enumerate(trial.log, 1)
    ]
    assert replay(entries, make).difference is None
