"""The oracle's admission: nobody who can keep a target is served too slowly, or after the lost."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support import first_and_long
from wharfinger.cli.main import main
from wharfinger.core import events as ev
from wharfinger.simulator.oracle.admission import IN_TIME, LATE
from wharfinger.simulator.oracle.demand import Knowledge
from wharfinger.simulator.run import RunSpec, Simulation, prepare, replay_recording

SPEC = RunSpec("paragon-local-oversubscribed", "least-loaded", "oracle", seed=2, workloads=60)


def watched(spec: RunSpec) -> tuple[Simulation, list[tuple[float, ev.Event]]]:
    simulation = prepare(spec)
    events: list[tuple[float, ev.Event]] = []
    inner = simulation.driver._log

    def log(now: float, those: object) -> None:
        events.extend((now, each) for each in those)  # type: ignore[attr-defined]
        inner(now, those)  # type: ignore[arg-type]

    simulation.driver._log = log  # type: ignore[method-assign]
    simulation.run()
    return simulation, events


def test_who_is_in_time_takes_servers_that_keep_its_target():
    simulation, events = watched(SPEC)
    setup, queue, seen = simulation.setup, {}, set()
    knowledge = Knowledge(setup)
    platforms = {server.name: server.platform.name for server in setup.servers}
    for now, event in events:
        if isinstance(event, ev.WorkloadQueued | ev.WorkloadDiverted):
            queue[event.name] = event.queue
        elif isinstance(event, ev.WorkloadPlaced):
            where = queue.get(event.name, "")
            seen.add(where)
            wants = knowledge.wants(event.name)
            if where == IN_TIME and wants is not None:
                platform = platforms[event.placements[0].server]
                most = knowledge.sizes(wants, platform)[-1]
                latest = wants.latest(knowledge.alone(wants, platform, most))
                assert now - wants.job.arrives_at <= latest
    assert seen == {IN_TIME, LATE}


@pytest.mark.slow
def test_all_end():
    _, events = watched(SPEC)
    ended = [each for _, each in events if isinstance(each, ev.WorkloadFinished)]
    assert len(ended) == 60


@pytest.mark.slow
@pytest.mark.parametrize("admission", first_and_long(["oracle", "arq"]))
def test_the_oracle_places_under_other_admissions(admission: str):
    spec = RunSpec("paragon-local-medium", "oracle", admission, seed=2, workloads=80)
    simulation, events = watched(spec)
    assert simulation.manager.policy.admission.name == admission
    assert len([each for _, each in events if isinstance(each, ev.WorkloadFinished)]) == 80
    queues = {each.queue for _, each in events if isinstance(each, ev.WorkloadQueued)}
    assert any(queue not in {"any", LATE} for queue in queues)


def test_latest_is_when_what_is_needed_is_what_it_does():
    knowledge = Knowledge(prepare(SPEC).setup)
    for job in prepare(SPEC).setup.jobs[:20]:
        wants = knowledge.wants(job.name)
        assert wants is not None
        latest = wants.latest(wants.best)
        assert wants.needed(0.0, latest) == pytest.approx(wants.best)


def test_it_is_a_choice_of_simulate(capsys: pytest.CaptureFixture[str]):
    argv = ["simulate", "paragon-local-low", "--workloads", "5", "--policy", "least-loaded"]
    assert main([*argv, "--admission", "oracle", "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["admission"] == "oracle"


@pytest.mark.long
def test_a_recording_is_decided_again(tmp_path: Path):
    spec = RunSpec("paragon-local-low", "paragon", "oracle", seed=2, workloads=8)
    prepare(replace(spec, record=tmp_path / "run.jsonl")).run()
    assert replay_recording(tmp_path / "run.jsonl").difference is None
