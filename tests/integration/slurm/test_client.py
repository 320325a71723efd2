"""The client against a real controller."""

import os
import time
from pathlib import Path

import pytest

from wharfinger.demo.slurm.cluster import SlurmCluster
from wharfinger.engines.slurm.client.base import Accounting, SlurmJob
from wharfinger.engines.slurm.client.client import CommandClient
from wharfinger.engines.slurm.client.commands import fault_of
from wharfinger.errors import SlurmRefused, SlurmUnavailable

NAME = "a\nb;$(touch /tmp/no) `id`"
SLEEP = "#!/bin/sh\nexec sleep 600\n"


@pytest.fixture
def client(cluster: SlurmCluster) -> CommandClient:
    return CommandClient(cluster.environment)


def job_of(client: CommandClient, job_id: int) -> SlurmJob:
    return next(job for job in client.jobs() if job.job_id == job_id)


def wait_for(cluster: SlurmCluster, client: CommandClient, job_id: int, state: str) -> SlurmJob:
    cluster.wait_until(lambda: job_of(client, job_id).state == state, f"{job_id} is {state}")
    return job_of(client, job_id)


def test_the_cluster_as_it_is(cluster: SlurmCluster, client: CommandClient):
    assert client.site().accounting is Accounting.JOBCOMP
    assert client.site().jobcomp_path == str(cluster.directory / "jobcomp.log")
    nodes = client.nodes()
    assert tuple(node.name for node in nodes) == cluster.names
    assert {node.features for node in nodes} == {
        (f"platform:{node_set.platform}",) for node_set in cluster.node_sets
    }
    cluster.wait_until(lambda: client.nodes() is client.nodes(), "no node has changed")
    (partition,) = client.partitions()
    assert partition.nodes == cluster.names


def test_a_job_from_hand_in_to_end(cluster: SlurmCluster, client: CommandClient, tmp_path: Path):
    begun = tmp_path / "begun"
    script = f"#!/bin/sh\ntrap 'exit 7' USR1\n: >{begun}\nwhile :; do sleep 0.1; done\n"
    options = {"job-name": NAME, "comment": 'it\'s "so"\n☃', "mem": "100M", "time": "10"}
    job_id = client.submit(script, {**options, "output": "/dev/null", "requeue": ""})
    job = job_of(client, job_id)
    assert (job.name, job.comment) == (NAME, options["comment"])
    assert job.held
    assert job.memory_bytes == 100 << 20
    assert client.script(job_id) == script
    client.update(job_id, {"ReqNodeList": "n4", "Comment": "placed: x=1 y"})
    assert job_of(client, job_id).required_nodes == ("n4",)
    assert job_of(client, job_id).comment == "placed: x=1 y"
    client.release([job_id])
    assert wait_for(cluster, client, job_id, "RUNNING").nodes == ("n4",)
    cluster.wait_until(begun.exists, "its script has begun")
    assert next(node for node in client.nodes() if node.name == "n4").cpus_allocated == 1
    client.suspend([job_id])
    assert job_of(client, job_id).state == "SUSPENDED"
    client.resume([job_id])
    assert job_of(client, job_id).state == "RUNNING"
    cluster.wait_until(lambda: job_id in client.usage([job_id]), "it is measured")
    assert client.ends([job_id]) == []

    def ended() -> bool:
        # Slurm loses a signal, without a word, that comes just after a resume.
        client.signal([job_id], "USR1")
        return bool(client.ends([job_id]))

    cluster.wait_until(ended, "it has ended")
    (end,) = client.ends([job_id])
    assert (end.state, end.exit_code, end.nodes) == ("FAILED", 7, ("n4",))
    client.cancel([job_id, 4711])


def test_many_are_read_and_changed_by_one_process(cluster: SlurmCluster, client: CommandClient):
    scripts = {client.submit(f"#!/bin/sh\n# {n} é\ntrue\n", {"mem": "10M"}): n for n in range(3)}
    told = client.scripts([*scripts, 4711])
    assert told == {job_id: f"#!/bin/sh\n# {n} é\ntrue\n" for job_id, n in scripts.items()}
    client.update_all({job: {"ReqNodeList": f"n{n + 1}"} for job, n in scripts.items()})
    assert [job_of(client, job).required_nodes for job in scripts] == [("n1",), ("n2",), ("n3",)]
    with pytest.raises(SlurmRefused, match="Invalid job id"):
        client.update_all({job: {"ReqNodeList": "n4"} for job in (4711, *scripts)})
    assert [job_of(client, job).required_nodes for job in scripts] == [("n4",)] * 3
    client.cancel(list(scripts))


def test_a_job_that_is_requeued_waits_for_a_release(cluster: SlurmCluster, client: CommandClient):
    job_id = client.submit(SLEEP, {"output": "/dev/null", "requeue": "", "nodelist": "n3"})
    client.release([job_id])
    wait_for(cluster, client, job_id, "RUNNING")
    client.requeue([job_id])
    job = wait_for(cluster, client, job_id, "PENDING")
    assert job.held
    assert job.restarts == 1
    assert client.ends([job_id]) == []
    # Slurm keeps what was requeued from starting for two minutes, unless it is told otherwise. Its
    # node takes a credential of the same second as the last one's end for one that is revoked.
    cluster.wait_until(lambda: not job_of(client, job_id).flags, "it is off its node")
    client.update(job_id, {"StartTime": "now+3"})
    client.release([job_id])
    wait_for(cluster, client, job_id, "RUNNING")
    client.cancel([job_id])
    cluster.wait_until(lambda: bool(client.ends([job_id])), "it is cancelled")
    assert client.ends([job_id])[0].state == "CANCELLED"


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda c: c.submit(SLEEP, {"partition": "nope"}), "invalid partition specified: nope"),
        (lambda c: c.release([4711]), "Invalid job id"),
        (lambda c: c.update(4711, {"Comment": "x"}), "Invalid job id"),
        (lambda c: c.submit(SLEEP, {"comment": "x" * 100_000}), "too long"),
        (lambda c: c.submit(SLEEP, {"no-such-option": "1"}), "unrecognized option"),
    ],
)
def test_what_slurm_refuses_is_one_line(client: CommandClient, call, says: str):
    with pytest.raises(SlurmRefused, match=says) as refused:
        call(client)
    assert len(str(refused.value).splitlines()) == 1


def test_others_jobs_may_not_be_altered_by_just_anybody(cluster: SlurmCluster):
    if os.geteuid() != 0:
        pytest.skip("needs root")
    job = cluster.submit("true", "--hold")
    complaint = cluster.run(
        "sh", "-c", f"setpriv --reuid=65534 --clear-groups scontrol release {job} 2>&1; true"
    )
    fault = fault_of("scontrol", complaint)
    assert isinstance(fault, SlurmRefused)
    assert "adminlevel=Operator" in str(fault)
    cluster.run("scancel", str(job))


def test_without_a_controller_and_without_munge(cluster: SlurmCluster, client: CommandClient):
    client.jobs()
    cluster.controller.stop()
    try:
        with pytest.raises(SlurmUnavailable):
            client.jobs()
    finally:
        cluster.controller.start()
    cluster.munge.pause()
    try:
        began = time.monotonic()
        with pytest.raises(SlurmUnavailable, match="munge"):
            CommandClient(cluster.environment, timeout_seconds=2).jobs()
        assert time.monotonic() - began < 60
    finally:
        cluster.munge.go_on()
    assert client.jobs() is not None
