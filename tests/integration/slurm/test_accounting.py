"""Ends by slurmdbd with a database, for jobs that the controller has forgotten."""

from pathlib import Path

import pytest

from tests.support.live import LiveManager, manifest
from tests.support.slurm import slurm_cluster
from wharfinger.engines.slurm.client.base import Accounting
from wharfinger.engines.slurm.client.client import CommandClient


@pytest.mark.long
def test_ends_are_read_from_accounting_where_the_controller_has_forgotten_the_jobs(tmp_path: Path):
    """Without a shared directory there is no other record of how they ended."""
    settings = {"MinJobAge": "2", "SlurmdTimeout": "60"}
    go = tmp_path / "go"
    waits = f"until [ -e {go} ]; do sleep 0.3; done"
    with slurm_cluster("slurmdbd", settings=settings) as cluster:
        client = CommandClient(cluster.environment)
        assert client.site().accounting is Accounting.SLURMDBD
        options = ("--engine", "slurm", "--policy", "least-loaded")
        manager = LiveManager(tmp_path / "state", *options, env=cluster.environment)
        manager.start()
        try:
            scripts = {"well": waits, "badly": f"{waits}; exit 7", "killed": "sleep 600"}
            manager.submit(
                *(
                    manifest(
                        name, "sh", "-c", script, profile={"mode": "none"},
                        resources={"cpu": 1, "memory": "64Mi"},
                    )
                    for name, script in scripts.items()
                )
            )  # fmt: skip
            manager.wait_for(lambda found: all(w["phase"] == "running" for w in found.values()))
            ids = {job.name: job.job_id for job in client.jobs()}
            manager.kill()
            go.touch()
            cluster.run("scancel", str(ids["killed"]))
            # Slurm looks for old jobs every half minute.
            cluster.wait_until(lambda: not client.jobs(), "they are forgotten", 300)
            manager.start()
            workloads = manager.wait_for_all()
        finally:
            if manager.process is None:
                manager.start()
            manager.clear()
        ends = {end.job_id: end for end in client.ends(list(ids.values()))}
    told = {name: (w["phase"], w["exit_code"]) for name, w in workloads.items()}
    assert told["well"] == ("completed", 0)
    assert told["badly"] == ("failed", 7)
    assert told["killed"][0] == "failed"
    assert "cancelled" in str(workloads["killed"])
    assert ends[ids["killed"]].cancelled_by == "root"
    assert {ends[ids[name]].state for name in ("well", "badly")} == {"COMPLETED", "FAILED"}
