"""A manager on a real Slurm: from a manifest to the ends."""

import time
from pathlib import Path

import pytest

from tests.support.live import ENDED, LiveManager
from tests.support.slurm import slurm_batch
from wharfinger.demo.slurm.cluster import SlurmCluster
from wharfinger.engines.slurm.client.client import CommandClient
from wharfinger.engines.slurm.comments import note_in

SLURMD_TIMEOUT = 10


def test_a_manifest_runs_to_its_end_on_several_platforms(manager: LiveManager):
    servers = manager.run("get", "servers")
    assert all(platform in servers for platform in ("fast", "wide", "slow"))
    codes = {f"w{number}": number % 4 for number in range(12)}
    manager.submit(
        *(
            slurm_batch(name, f"echo {name} runs; sleep 0.3; exit {code}")
            for name, code in codes.items()
        )
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
    cluster.wait_until(lambda: jobs()[placed].state == "FAILED", "Slurm tells its end")
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
    manager.submit(slurm_batch("waits", "exit 0"))
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
    restartable = slurm_batch("again", script)
    restartable["spec"]["run"]["restartable"] = True
    manager.submit(restartable)
    cluster.wait_until(lambda: marks.exists() and bool(marks.read_text()), "it runs")
    lost = manager.workloads()["again"]["servers"][0]
    cluster.lose_node(lost)
    try:
        workload = manager.wait_for_all(240)["again"]
    finally:
        cluster.slurmd(lost).start()
    assert workload["exit_code"] == 0
    assert workload["evictions"] == 1
    assert marks.read_text().count("\n") == 2
