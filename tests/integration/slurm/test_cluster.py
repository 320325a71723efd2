"""The test cluster itself: real nodes of three platforms, disturbed, gone at the end."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.slurm import needs_slurm
from wharfinger.demo.slurm.cluster import SlurmCluster
from wharfinger.host.cgroups import find_hierarchies
from wharfinger.host.processes import descendants, has_ended

SLURMD_TIMEOUT = 10

# Burns CPU for a second of the clock, and tells how much it got and where it may run.
BURN = """
exec python3 -c '
import os, time
end, started = time.monotonic() + 1.5, time.process_time()
while time.monotonic() < end: pass
print((time.process_time() - started) / 1.5, *sorted(os.sched_getaffinity(0)))
'
"""


def groups_of(pid: int) -> set[Path]:
    """The cgroups that were made for a process's node; none for one that has ended."""
    try:
        places = re.findall(r"wharfinger-slurm-\S+", Path(f"/proc/{pid}/cgroup").read_text())
    except OSError:
        return set()
    return {hierarchy.own / place for hierarchy in find_hierarchies() for place in places}


def wait_for_ends(cluster: SlurmCluster, *job_ids: int) -> list[str]:
    states: list[str] = []

    def ended() -> bool:
        nonlocal states
        states = [cluster.job_states().get(str(job_id), "") for job_id in job_ids]
        return all(state in {"COMPLETED", "FAILED", "CANCELLED", "NODE_FAIL"} for state in states)

    cluster.wait_until(ended, f"jobs {job_ids} have ended")
    return states


def test_three_platforms_differ_for_real(cluster: SlurmCluster, tmp_path: Path):
    cores, cpus, jobs = {}, {}, {}
    for platform in ("fast", "wide", "slow"):
        output = f"--output={tmp_path / platform}"
        jobs[platform] = cluster.submit(BURN, "-C", f"platform:{platform}", output)
        wait_for_ends(cluster, jobs[platform])
        got, *affinity = (tmp_path / platform).read_text().split()
        cores[platform], cpus[platform] = float(got), tuple(map(int, affinity))
    nodes = {platform: cluster.job(job)["NodeList"] for platform, job in jobs.items()}
    assert nodes["fast"] in {"n1", "n2"}
    assert nodes["wide"] in {"n3", "n4"}
    assert nodes["slow"] in {"n5", "n6"}
    for node_set in cluster.node_sets:
        assert cpus[node_set.platform] == node_set.machine_cpus
    if not any("quota" in condition for condition in cluster.conditions):
        for node_set in cluster.node_sets:
            # Each may use its quota and no more; a busy machine may give less.
            assert cores[node_set.platform] <= node_set.cpu_millicpus / 1000 * 1.3
        assert cores["slow"] < cores["fast"]


def test_a_node_that_is_drained_takes_no_job_until_it_may_again(cluster: SlurmCluster):
    cluster.drain("n1", "a test")
    cluster.drain("n2", "a test")
    cluster.wait_until(lambda: cluster.node_states()["n1"] == "drain", "it is drained")
    job = cluster.submit("true", "-C", "platform:fast")
    assert cluster.job_states()[str(job)] == "PENDING"
    cluster.undrain("n1")
    cluster.undrain("n2")
    assert wait_for_ends(cluster, job) == ["COMPLETED"]


@pytest.mark.parametrize("way", ["restart", "kill"])
def test_jobs_outlive_the_controller(cluster: SlurmCluster, tmp_path: Path, way: str):
    go = tmp_path / "go"
    job = cluster.submit(f"until [ -e {go} ]; do sleep 0.2; done; exit 3")
    cluster.wait_until(lambda: cluster.job_states()[str(job)] == "RUNNING", "it runs")
    if way == "kill":
        # It writes down new jobs every few seconds; of those since, a killed one knows nothing.
        saved, now = cluster.directory / "state" / "job_state", time.time()
        cluster.wait_until(lambda: saved.exists() and saved.stat().st_mtime > now, "it is saved")
        cluster.controller.kill()
        cluster.controller.start()
    else:
        cluster.controller.restart()
    go.touch()
    assert wait_for_ends(cluster, job) == ["FAILED"]
    assert cluster.job(job)["ExitCode"] == "3:0"


def test_jobs_outlive_a_nodes_daemon(cluster: SlurmCluster, tmp_path: Path):
    go = tmp_path / "go"
    job = cluster.submit(f"until [ -e {go} ]; do sleep 0.2; done", "-w", "n3")
    cluster.wait_until(lambda: cluster.job_states()[str(job)] == "RUNNING", "it runs")
    cluster.slurmd("n3").kill()
    cluster.slurmd("n3").start()
    go.touch()
    assert wait_for_ends(cluster, job) == ["COMPLETED"]


def test_a_lost_node_takes_its_jobs_with_it(cluster: SlurmCluster):
    pids = cluster.directory / "pid"
    job = cluster.submit(f"echo $$ > {pids}; sleep 1000", "-w", "n4", "--no-requeue")
    cluster.wait_until(lambda: pids.exists() and pids.read_text().strip() != "", "it runs")
    pid = int(pids.read_text())
    cluster.lose_node("n4")
    cluster.wait_until(lambda: not Path(f"/proc/{pid}").exists(), "its processes are gone")
    assert wait_for_ends(cluster, job) == ["NODE_FAIL"]
    cluster.slurmd("n4").start()
    assert wait_for_ends(cluster, cluster.submit("true", "-w", "n4")) == ["COMPLETED"]


def test_without_munge_nothing_is_answered(cluster: SlurmCluster):
    cluster.munge.pause()
    try:
        with pytest.raises(subprocess.TimeoutExpired):
            subprocess.run(["sinfo"], env=cluster.environment, timeout=1, check=False)
    finally:
        cluster.munge.go_on()
    assert cluster.node_states()


def test_nothing_is_left_when_the_caller_is_killed(tmp_path: Path):
    needs_slurm()
    program = (
        "from wharfinger.demo.slurm.cluster import SlurmCluster\n"
        "cluster = SlurmCluster()\n"
        "cluster.open()\n"
        "cluster.submit('setsid sleep 1000 & sleep 1000')\n"
        "cluster.wait_until(lambda: 'RUNNING' in cluster.job_states().values(), 'it runs')\n"
        "print(cluster.directory, cluster.keeper.pid, flush=True)\n"
        "import time; time.sleep(100)\n"
    )
    caller = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert caller.stdout is not None
    directory, keeper = caller.stdout.readline().split()
    below = descendants(int(keeper))
    assert len(below) > 8
    groups = {group for pid in below for group in groups_of(pid)}
    caller.send_signal(signal.SIGKILL)
    caller.communicate()
    pidfd = os.pidfd_open(int(keeper))
    try:
        assert has_ended(pidfd, timeout_seconds=60)
    finally:
        os.close(pidfd)
    assert not Path(directory).exists()
    assert not [pid for pid in below if Path(f"/proc/{pid}").exists()]
    assert not [group for group in groups if group.exists()]
