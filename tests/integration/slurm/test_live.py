"""A manager on a real Slurm: from a manifest to the ends, through kills and restarts."""

import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.live import ENDED, LiveManager, manifest
from wharfinger.demo.slurm.cluster import SlurmCluster
from wharfinger.engines.slurm.client.client import CommandClient
from wharfinger.engines.slurm.comments import note_in

IN_FLIGHT = 20


@pytest.fixture
def manager(cluster: SlurmCluster, tmp_path: Path) -> Iterator[LiveManager]:
    shared = tmp_path / "shared"
    shared.mkdir()
    options = ("--engine", "slurm", "--shared-dir", str(shared))
    options += ("--platform-feature", "platform:*", "--policy", "least-loaded")
    manager = LiveManager(tmp_path / "state", *options, env=cluster.environment)
    manager.start()
    try:
        yield manager
    finally:
        if manager.process is None:
            manager.start()
        manager.clear()
        for job_id, state in cluster.job_states().items():
            if state in {"RUNNING", "PENDING"}:
                cluster.run("scancel", job_id)
        cluster.wait_until(
            lambda: not {"RUNNING", "PENDING"} & set(cluster.job_states().values()), "all ended"
        )


def _batch(name: str, script: str, **spec: Any) -> dict[str, Any]:
    resources = {"cpu": 1, "memory": "64Mi"}
    return manifest(name, "sh", "-c", script, resources=resources, profile={"mode": "none"}, **spec)


def test_a_manifest_runs_to_its_end_on_several_platforms(manager: LiveManager):
    servers = manager.run("get", "servers")
    assert all(platform in servers for platform in ("fast", "wide", "slow"))
    codes = {f"w{number}": number % 4 for number in range(12)}
    manager.submit(
        *(_batch(name, f"echo {name} runs; sleep 0.3; exit {code}") for name, code in codes.items())
    )
    workloads = manager.wait_for_all()
    assert {name: w["exit_code"] for name, w in workloads.items()} == codes
    assert len({server for w in workloads.values() for server in w["servers"]}) >= 3
    assert manager.run("logs", "w5") == "w5 runs\n"


def test_a_held_job_with_a_target_is_placed_and_explained_in_its_own_comment(
    manager: LiveManager, cluster: SlurmCluster
):
    target = "wharfinger: {target: {completionTime: 10m}, profile: {mode: none}}"
    size = ("--mem=64M", "--hold")
    placed = cluster.submit("sleep 1; exit 3", *size, "--comment", target)
    unreadable = cluster.submit("exit 0", *size, "--comment", "wharfinger: {target")
    plain = cluster.submit("exit 0", *size, "--comment", "for later")
    client = CommandClient(cluster.environment)
    jobs = lambda: {job.job_id: job for job in client.jobs()}  # noqa: E731
    ended = manager.wait_for(lambda found: found.get(f"slurm-{placed}", {}).get("phase") in ENDED)
    assert ended[f"slurm-{placed}"]["exit_code"] == 3
    cluster.wait_until(lambda: bool(note_in(jobs()[unreadable].comment)), "it is told")
    now = jobs()
    assert now[placed].state == "FAILED"
    assert now[placed].nodes[0] in note_in(now[placed].comment)
    assert now[placed].comment.startswith(target)
    assert note_in(now[unreadable].comment).startswith("not taken: ")
    assert now[plain].comment == "for later"
    assert now[unreadable].held
    assert now[plain].held


@pytest.mark.slow
def test_tasks_of_a_held_array_and_a_job_of_two_nodes_are_placed(
    manager: LiveManager, cluster: SlurmCluster
):
    target = "wharfinger: {target: {completionTime: 10m}, profile: {mode: none}}"
    held = ("--mem=64M", "--hold", "--comment", target)
    array = cluster.submit("sleep 2; exit $SLURM_ARRAY_TASK_ID", *held, "--array=0-3%3")
    wide = cluster.submit("srun hostname; exit 5", *held, "--nodes=2")
    names = {f"slurm-{array}-{task}": task for task in range(4)} | {f"slurm-{wide}": 5}
    ended = manager.wait_for(
        lambda found: all(found.get(name, {}).get("phase") in ENDED for name in names)
    )
    assert {name: ended[name]["exit_code"] for name in names} == names
    jobs = {job.job_id: job for job in CommandClient(cluster.environment).jobs()}
    assert len(jobs[wide].nodes) == 2
    tasks = [job for job in jobs.values() if job.array_id == array]
    assert all(job.nodes[0] in note_in(job.comment) for job in tasks)


def test_what_others_hold_makes_work_wait_and_never_too_large(
    manager: LiveManager, cluster: SlurmCluster
):
    foreign = [cluster.submit("sleep 600", "-w", name, "--exclusive") for name in cluster.names]
    running = lambda: [cluster.job_states().get(str(job)) for job in foreign]  # noqa: E731
    cluster.wait_until(lambda: set(running()) == {"RUNNING"}, "foreign jobs run")
    time.sleep(6)  # A look at the nodes later it is known.
    manager.submit(_batch("waits", "exit 0"))
    time.sleep(3)
    waiting = manager.workloads()["waits"]
    assert waiting["phase"] not in ENDED
    assert "too-large" not in str(waiting)
    cluster.run("scancel", *map(str, foreign[:1]))
    assert manager.wait_for_all()["waits"]["exit_code"] == 0
    assert running()[1:] == ["RUNNING"] * 5
    cluster.run("scancel", *map(str, foreign[1:]))


def test_a_lost_nodes_restartable_work_goes_on_elsewhere(
    manager: LiveManager, cluster: SlurmCluster, tmp_path: Path
):
    marks = tmp_path / "marks"
    script = f"echo $SLURMD_NODENAME >> {marks}; n=$(wc -l < {marks}); [ $n -gt 1 ] || sleep 600"
    restartable = _batch("again", script)
    restartable["spec"]["run"]["restartable"] = True
    manager.submit(restartable)
    cluster.wait_until(marks.exists, "it runs")
    lost = manager.workloads()["again"]["servers"][0]
    cluster.lose_node(lost)
    try:
        workload = manager.wait_for_all()["again"]
    finally:
        cluster.slurmd(lost).start()
    assert workload["exit_code"] == 0
    assert workload["evictions"] == 1
    assert marks.read_text().count("\n") == 2


@pytest.mark.long
@pytest.mark.parametrize("rounds", [10])
def test_kills_lose_nothing_and_double_nothing(
    manager: LiveManager, cluster: SlurmCluster, tmp_path: Path, rounds: int
):
    chance = random.Random(7)
    marks = tmp_path / "marks"
    marks.mkdir()
    foreign = cluster.submit("sleep 600", "-w", "n6", "--comment", "wharfinger-run of nobody")
    held = cluster.submit("exit 1", "--hold", "--comment", "wharfinger: {")
    codes: dict[str, int] = {}
    for round_number in range(rounds):
        live = sum(w["phase"] not in ENDED for w in manager.workloads().values())
        names = [f"r{round_number}n{number}" for number in range(max(1, IN_FLIGHT - live))]
        codes |= {name: chance.choice((0, 0, 1, 3, 77, 255)) for name in names}
        manager.submit(
            *(
                _batch(
                    name,
                    f"echo $$ >> {marks}/{name}; sleep {chance.choice((0, 0.2, 1, 3))}; "
                    f"exit {codes[name]}",
                )
                for name in names
            )
        )
        time.sleep(chance.uniform(0.0, 2.0))
        manager.kill()
        disturb = chance.choice(("controller", "node", "munge", "nothing"))
        if disturb == "controller":
            cluster.controller.restart()
        elif disturb == "node":
            name = chance.choice(cluster.names)
            cluster.slurmd(name).kill()
            cluster.slurmd(name).start()
        elif disturb == "munge":
            cluster.munge.pause()
            time.sleep(2)
            cluster.munge.go_on()
        manager.start()
    workloads = manager.wait_for_all(timeout_seconds=180)
    told = {name: workloads[name]["exit_code"] for name in codes}
    assert told == codes
    for name in codes:
        assert (marks / name).read_text().count("\n") == 1, name
    assert cluster.job_states()[str(foreign)] == "RUNNING"
    assert cluster.job(held)["Comment"] == "wharfinger:"
    assert cluster.job_states()[str(held)] == "PENDING"
    cluster.run("scancel", str(foreign), str(held))
