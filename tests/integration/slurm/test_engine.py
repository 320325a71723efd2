"""Every promise of an engine, kept by a real Slurm."""

import shlex
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from tests.support.slurm import slurm_cluster
from wharfinger.demo.slurm.cluster import SlurmCluster
from wharfinger.engines.base import Engine
from wharfinger.engines.notes import MemoryNotes
from wharfinger.engines.slurm import SlurmEngine, SlurmSettings
from wharfinger.engines.slurm.client.base import SlurmJob
from wharfinger.engines.slurm.client.client import CommandClient
from wharfinger.engines.slurm.comments import addressed
from wharfinger.errors import EngineFault
from wharfinger.model.workload import Workload
from wharfinger.testing import EngineHarness, FaultyEngine, ShellPrograms, engine_checks
from wharfinger.testing.harness import EngineCheck

CHANGES_NODES = {
    "a_server_that_leaves_while_something_starts",
    "servers_that_left_unwatched_take_nothing_with_them",
}
"""Checks for which nodes would have to leave the cluster: ``FakeSlurm`` passes them."""


@pytest.fixture(scope="module")
def client(cluster: SlurmCluster) -> CommandClient:
    return CommandClient(cluster.environment)


@pytest.fixture
def quiet(cluster: SlurmCluster, client: CommandClient) -> Iterator[None]:
    """Afterwards nothing runs or waits but what users have handed in, which is cancelled."""
    yield
    client.cancel([job.job_id for job in client.jobs() if addressed(job.comment)])
    cluster.wait_until(
        lambda: not {"RUNNING", "PENDING"} & set(cluster.job_states().values()), "all has ended"
    )


def _harness(
    directory: Path, cluster: SlurmCluster, client: CommandClient, *, faulty: bool
) -> EngineHarness:
    shared = directory / "shared"
    shared.mkdir()
    notes = MemoryNotes()
    settings = SlurmSettings(shared_dir=shared, poll_seconds=1.0)
    foreign: list[int] = []

    def make_engine() -> Engine:
        return SlurmEngine(client, notes, settings)

    def job_of(key: str) -> SlurmJob:
        running = (job for job in client.jobs() if job.state == "RUNNING")
        (job,) = (job for job in running if job.comment.endswith(f" {key}"))
        return job

    def lose(key: str, server: str) -> None:
        assert server in job_of(key).nodes
        node = f"NodeName={server}"
        cluster.run("scontrol", "update", node, "State=DOWN", "Reason=test")
        with suppress(EngineFault):  # Its slurmd may have registered it again by now.
            cluster.run("scontrol", "update", node, "State=RESUME")

    def evict(key: str) -> None:
        job = job_of(key)
        cluster.run("scontrol", "update", f"JobId={job.job_id}", "Requeue=1")
        cluster.run("scontrol", "requeue", str(job.job_id))

    def offer(workload: Workload) -> str:
        body = f"exec {shlex.join(workload.run.command)}"
        comment = "wharfinger: {target: {completionTime: 20m}}"
        return f"job {cluster.submit(body, '--hold', '--mem=64M', '--comment', comment)}"

    def occupy(_engine: Engine, cpu: int, memory: int) -> None:
        while foreign:
            cluster.run("scancel", str(foreign.pop()))
        if cpu:
            size = (f"-c{cpu // 1000}", f"--mem={memory >> 20}M")
            foreign.append(cluster.submit("sleep 300", "-w", "n1", *size))

    return EngineHarness(
        directory,
        lambda _state: FaultyEngine(make_engine, Random(0)) if faulty else make_engine(),
        ShellPrograms(directory),
        occupy=occupy,
        evict=evict,
        lose_server=lose,
        offer=offer,
        withdraw=lambda handle: cluster.run("scancel", handle.split()[1]),
    )


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize(
    "faulty", [False, pytest.param(True, marks=pytest.mark.long)], ids=["bare", "faulty"]
)
@pytest.mark.parametrize("check", engine_checks(), ids=lambda check: check.__name__)
def test_slurm_engine(
    check: EngineCheck,
    faulty: bool,
    cluster: SlurmCluster,
    client: CommandClient,
    tmp_path: Path,
):
    check(_harness(tmp_path, cluster, client, faulty=faulty))


def test_accounting_has_the_programs_own_status(tmp_path: Path):
    """As the user sees it by ``sacct``, though our supervisor stands between."""
    with slurm_cluster("jobcomp") as cluster:
        client = CommandClient(cluster.environment)
        with _harness(tmp_path, cluster, client, faulty=False).trial() as trial:
            for status in (0, 3, 255):
                trial.start(f"k{status}", trial.programs.exiting(f"k{status}", status))
            for status in (0, 3, 255):
                trial.expect_status(f"k{status}", status)
            ids = {job.comment.split()[-1]: job.job_id for job in client.jobs()}
            # Our own records tell of an end before Slurm does.
            cluster.wait_until(lambda: len(client.ends(list(ids.values()))) == 3, "all are told")
            ends = {end.job_id: end for end in client.ends(list(ids.values()))}
            told = {key: (ends[n].state, ends[n].exit_code) for key, n in ids.items()}
    assert told == {
        "k0": ("COMPLETED", 0),
        "k3": ("FAILED", 3),
        "k255": ("FAILED", 255),
    }


@pytest.mark.usefixtures("quiet")
def test_a_command_beside_a_program_ends_with_its_client(
    cluster: SlurmCluster, client: CommandClient, tmp_path: Path
):
    """On the node, too, where our client is not."""
    with _harness(tmp_path, cluster, client, faulty=False).trial() as trial:
        trial.run_lasting("k")
        file = tmp_path / "pid"
        beside = trial.engine.execute("k", ("sh", "-c", f"echo $$ >{file}; exec sleep 600"))
        cluster.wait_until(lambda: file.exists() and bool(file.read_text()), "it runs")
        pid = int(file.read_text())
        beside.kill()
        assert beside.wait(60) not in (None, 0)
        beside.close()
        cluster.wait_until(lambda: not Path(f"/proc/{pid}").exists(), "it has ended on its node")
        trial.expect_no_end("k")
