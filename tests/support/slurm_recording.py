"""Records what one version of Slurm answers about jobs and nodes in every state.

``python -m tests.support.slurm_recording DIRECTORY [PREFIX CGROUP_PLUGIN]`` runs a cluster of the
Slurm that is installed at PREFIX, or of the system's, and writes the answers of its commands.
"""

import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from wharfinger.demo.slurm.cluster import SlurmCluster
from wharfinger.engines.slurm.client.accounting import sacct_command
from wharfinger.engines.slurm.client.client import CommandClient
from wharfinger.engines.slurm.client.text import FIGURES_COMMAND, NODES_COMMAND, jobs_command
from wharfinger.engines.slurm.client.versions import nodes_command
from wharfinger.errors import EngineFault

HOSTILE_NAME = "two\nlines; $(reboot) `id` \x07 JobState=COMPLETED ExitCode=0:0"
HOSTILE_COMMENT = 'wharfinger: {"target": "é☃"}\n\x1b[31m\\" \t</script>'
MARK = "5b1f0c6e9a4d42d7a0c3e8f1"
SETTINGS = {"SlurmdTimeout": "5", "JobAcctGatherParams": "OverMemoryKill", "Licenses": "solver:2"}


def make_jobs(cluster: SlurmCluster) -> list[int]:
    """Jobs in every state that can be had within two minutes."""
    submit = cluster.submit
    jobs = [
        submit("exit 0", "-J", "completed"),
        submit("exit 7", "-J", "failed"),
        submit("kill -9 $$", "-J", "killed"),
        submit("sleep 600", "-J", "timeout", "--time=1", "-w", "n5", "--mem=100"),
        submit("sleep 600", "-J", "cancelled", "-w", "n5", "--mem=100"),
        submit("sleep 600", "-J", "lost", "-w", "n6", "--no-requeue"),
        submit("sleep 600", "-J", "two-nodes", "-w", "n1,n2", "-N", "2", "--mem=100"),
        submit("sleep 600", "-J", "suspended", "-w", "n3", "--mem=100"),
        submit(
            "exec python3 -c 'a = bytearray(400 << 20); import time; time.sleep(600)'",
            "-J", "out-of-memory", "-w", "n4", "--mem=50",
        ),
        submit("sleep 600", "-J", "array", "--array=0-9%1", "-w", "n4", "--mem=100"),
        submit("sleep 600", "-J", "requeued", "-w", "n3", "--mem=100", "--requeue"),
        submit("true", "-J", HOSTILE_NAME, "--comment", HOSTILE_COMMENT, "--hold"),
        submit("true", "-J", "held", "--hold", "--time=20", "--mem-per-cpu=10", "-n", "2"),
        submit("true", "-J", "waits", "-n", "16", "-N", "6", "--mem=1"),
        submit("true", "-J", "licensed", "-L", "solver:1", "--hold", "-C", "platform:wide"),
    ]  # fmt: skip
    jobs.append(submit("true", "-J", "depends", f"--dependency=afterok:{jobs[6]}"))
    return jobs


def disturb(cluster: SlurmCluster, jobs: list[int]) -> None:
    """Bring the jobs into the states that they are named by."""
    names = ("cancelled", "lost", "two-nodes", "suspended", "requeued")
    running = [str(jobs[place]) for place in (4, 5, 6, 7, 10)]
    cluster.wait_until(
        lambda: all(cluster.job_states()[job] == "RUNNING" for job in running), f"{names} run"
    )
    cluster.run("scancel", running[0])
    cluster.lose_node("n6")
    cluster.run("scontrol", "suspend", running[3])
    cluster.run("scontrol", "requeuehold", running[4])
    cluster.drain("n4", 'a "test"\nof draining')
    ended = (*range(6), 8)
    cluster.wait_until(
        lambda: not {cluster.job_states()[str(jobs[place])] for place in ended} & {"RUNNING"},
        "all have ended that are to",
        timeout_seconds=180,
    )


def record(cluster: SlurmCluster, directory: Path) -> None:
    """Write down what the commands answer."""
    jobs = make_jobs(cluster)
    disturb(cluster, jobs)
    client = CommandClient(cluster.environment)
    environment = {"SLURM_TIME_FORMAT": "%s", "TZ": "UTC"}
    answers = {
        "jobs.json": ["squeue", "--all", "--states=all", "--json"],
        "nodes.json": nodes_command(client.site().version),
        "config.txt": ["scontrol", "show", "config"],
        "partitions.txt": ["scontrol", "--all", "-o", "show", "partition"],
        "jobs.text": jobs_command(MARK),
        "jobs-figures.text": FIGURES_COMMAND,
        "nodes.text": NODES_COMMAND,
        "sstat.txt": ["sstat", "--noheader", "--parsable2", "--noconvert", "--allsteps",
                      f"--jobs={jobs[6]},{jobs[0]}", "--format=JobID,AveCPU,NTasks,MaxRSS"],
    }  # fmt: skip
    if cluster.accounting == "slurmdbd":
        cluster.wait_until(
            lambda: "TIMEOUT" in cluster.run("sacct", "-n", "-j", str(jobs[3])), "it is accounted"
        )
        answers["sacct.txt"] = sacct_command(jobs)
    directory.mkdir(parents=True, exist_ok=True)
    for name, command in answers.items():
        with suppress(EngineFault):
            words = ["env", *(f"{key}={value}" for key, value in environment.items()), *command]
            (directory / name).write_text(_moved(cluster, cluster.run(*words)))


def _moved(cluster: SlurmCluster, answer: str) -> str:
    """With a plain name for the cluster's directory, also as JSON writes it."""
    there, named = str(cluster.directory), "/var/lib/slurm"
    in_json = (path.replace("/", "\\/") for path in (there, named))
    return answer.replace(there, named).replace(*in_json)


def record_jobcomp(cluster_options: dict[str, Any], directory: Path) -> None:
    """Write down the file of ``jobcomp/filetxt`` after a few jobs."""
    with SlurmCluster(accounting="jobcomp", **cluster_options) as cluster:
        jobs = [
            cluster.submit("exit 0", "-J", "completed"),
            cluster.submit("exit 7", "-J", HOSTILE_NAME),
            cluster.submit("kill -9 $$", "-J", "x JobState=COMPLETED"),
        ]
        cluster.wait_until(
            lambda: all(cluster.job_states()[str(job)] in {"COMPLETED", "FAILED"} for job in jobs),
            "all have ended",
        )
        content = (cluster.directory / "jobcomp.log").read_text()
        (directory / "jobcomp.txt").write_text(_moved(cluster, content))


def main() -> None:
    directory = Path(sys.argv[1])
    options: dict[str, Any] = {}
    if len(sys.argv) > 2:
        options = {"prefix": Path(sys.argv[2]), "cgroup_plugin": sys.argv[3]}
    with SlurmCluster(accounting="slurmdbd", settings=SETTINGS, **options) as cluster:
        record(cluster, directory)
    record_jobcomp(options, directory)


if __name__ == "__main__":
    main()
