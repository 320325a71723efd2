"""What the Slurm engine costs: polls of a large cluster, the manager beside it, and held jobs.

Polls: the recorded answers of each version, repeated under other ids and names until there are as
many nodes and jobs as asked, parsed and folded; CPU seconds of this process. Their peer is the
standard library's ``json.loads`` of the same bytes.

Manager: ``wharfinger up`` with commands in its path that print such answers: its CPU share at its
own pace (a look each 5 s), and its largest memory.

Held: on a real cluster of this machine, users' held jobs with targets, from their hand-in until
they run, beside the same jobs by plain ``sbatch`` in the same run; and what CPU time the manager
took until the last ran. The same through `wharfinger submit`. Then its CPU share while they run.

Run it with: python -m benchmarks.slurm [--rounds 5] [--seconds 60] [--held 100] [--output FILE]
"""

import copy
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks._harness import parser, report, spread
from benchmarks.measuring import cpu_seconds, percent
from tests.support.live import ENDED, LiveManager, manifest
from tests.support.slurm import slurm_cluster
from wharfinger.demo.slurm.cluster import SlurmCluster, missing_slurm
from wharfinger.demo.slurm.settings import NodeSet
from wharfinger.engines.slurm.client.client import jobs_poll, nodes_poll

RECORDED = Path("tests/unit/engines/slurm/recorded")
FROM_FOLDER = """
import sys
from wharfinger.engines.slurm.client import commands
commands._PATH = {!r}
sys.argv = ["wharfinger", *sys.argv[4:]]  # Behind: -c, the interpreter, -m, wharfinger.
from wharfinger.__main__ import main
sys.exit(main())
"""
"""A manager that finds Slurm's commands there and nowhere else."""
COMMENT = "wharfinger: {target: {completionTime: 30m}, profile: {mode: none}}"
SETTLED_SECONDS = 30.0
"""After the last start the manager looks in its own pace again."""
PLACED_SECONDS = 300.0


# --- answers ----------------------------------------------------------------------------------


def many(records: list[dict[str, Any]], count: int, key: str) -> list[dict[str, Any]]:
    """The records again and again, each under an id of its own."""
    repeated = []
    for number in range(count):
        record = copy.deepcopy(records[number % len(records)])
        record[key] = number + 1 if key == "job_id" else f"n{number + 1}"
        repeated.append(record)
    return repeated


def answers(version: str, kind: str, count: int) -> dict[str, bytes]:
    """An answer; the same where every hundredth record changed; and where what we skip did."""
    whole = json.loads((RECORDED / version / f"{kind}.json").read_text())
    key = "job_id" if kind == "jobs" else "name"
    whole[kind] = many(whole[kind], count, key)

    def written() -> bytes:
        return json.dumps(whole, indent=2).encode()

    first = written()
    skipped = "last_sched_evaluation" if kind == "jobs" else "free_memory"
    for record in whole[kind]:
        record[skipped] = 4711
    noise = written()
    for record in whole[kind][::100]:
        record["comment" if kind == "jobs" else "reason"] = "another"
    return {"first": first, "noise": noise, "hundredth": written()}


# --- polls ------------------------------------------------------------------------------------


def seconds_of(call: Callable[[], object]) -> float:
    began = time.process_time()
    call()
    return time.process_time() - began


def polls(version: str, node_count: int, job_count: int, rounds: int) -> dict[str, Any]:
    """CPU seconds of each kind of poll, nodes and jobs together."""
    jobs, nodes = answers(version, "jobs", job_count), answers(version, "nodes", node_count)
    times: dict[str, list[float]] = {
        name: [] for name in ("first", "unchanged", "noise", "hundredth", "json_loads")
    }
    for _ in range(rounds):
        job_poll, node_poll = jobs_poll(), nodes_poll()
        for name in ("first", "unchanged", "noise", "hundredth"):
            # As new bytes each time: an answer's hash is not remembered.
            job_answer = bytes(bytearray(jobs["first" if name == "unchanged" else name]))
            node_answer = bytes(bytearray(nodes["first" if name == "unchanged" else name]))
            times[name].append(
                seconds_of(lambda: (job_poll.fold(job_answer), node_poll.fold(node_answer)))  # noqa: B023 - called at once
            )
        times["json_loads"].append(
            seconds_of(lambda: (json.loads(jobs["first"]), json.loads(nodes["first"])))
        )
    return {
        "polls": version,
        "nodes": node_count,
        "jobs": job_count,
        "megabytes": (len(jobs["first"]) + len(nodes["first"])) / 1e6,
        "cpu_seconds": {name: spread(values) for name, values in times.items()},
    }


# --- the manager beside a large cluster ----------------------------------------------------------


def pretend(directory: Path, version: str, node_count: int, job_count: int) -> Path:
    """A folder of commands that print the answers of a cluster so large."""
    folder = directory / "bin"
    folder.mkdir(parents=True)
    for kind, count in (("jobs", job_count), ("nodes", node_count)):
        (folder / f"{kind}.json").write_bytes(answers(version, kind, count)["first"])
    for name in ("config.txt", "partitions.txt"):
        shutil.copy(RECORDED / version / name, folder)
    scripts = {
        "squeue": "exec cat jobs.json",
        "sinfo": "exec cat nodes.json",
        "sstat": "exit 1",
        "sacct": "exit 0",
        "scontrol": 'case "$*" in *config*) exec cat config.txt;; *partition*) exec cat '
        "partitions.txt;; *nodes*) exec cat nodes.json;; esac",
    }
    for name, script in scripts.items():
        (folder / name).write_text(f"#!/bin/sh\ncd {folder}\n{script}\n")
        (folder / name).chmod(0o755)
    return folder


def peak_bytes(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) << 10


@contextmanager
def running(
    directory: Path, *options: str, env: dict[str, str] | None = None, commands: str = ""
) -> Iterator[LiveManager]:
    prefix = [sys.executable, "-c", FROM_FOLDER.format(commands)] if commands else []
    options = ("--engine", "slurm", *options)
    live = LiveManager(directory / "state", *options, env=env, prefix=prefix)
    live.start()
    try:
        yield live
    finally:
        live.kill()


def use_of(pid: int, seconds: float) -> dict[str, Any]:
    """The manager's share of a CPU for so long, and its peak of memory."""
    share = percent({"manager": pid}, seconds)
    return {**share, "peak_megabytes": round(peak_bytes(pid) / 1e6, 1)}


def beside(version: str, node_count: int, job_count: int, seconds: float) -> dict[str, Any]:
    """CPU share and memory of a manager of whose jobs none are its own."""
    with tempfile.TemporaryDirectory() as place:
        folder = pretend(Path(place), version, node_count, job_count)
        with running(Path(place), commands=f"{folder}:/usr/bin:/bin") as live:
            assert live.process is not None
            pid = live.process.pid
            scale = {"manager_beside": version, "nodes": node_count, "jobs": job_count}
            return {**scale, **use_of(pid, seconds)}


# --- held jobs on a real cluster ---------------------------------------------------------------


def nodes_for(count: int) -> tuple[NodeSet, ...]:
    """Six nodes on which so many jobs of one CPU run twice at the same time."""
    cpus = max(2, -(-2 * count // 6) + 2)
    names = tuple(f"n{number}" for number in range(1, 7))
    return (NodeSet("plain", names, cpus, cpus * 128 << 20, 1000 * (os.cpu_count() or 1)),)


def program(mark: Path) -> str:
    """Says when it runs, and runs on."""
    return f"date +%s.%N > {mark}.new; mv {mark}.new {mark}; exec sleep 3000"


def summary(began: dict[Path, float]) -> dict[str, Any]:
    """From each hand-in, by the mark of its job, until it runs."""
    deadline = time.monotonic() + PLACED_SECONDS
    while not all(mark.exists() for mark in began) and time.monotonic() < deadline:
        time.sleep(0.1)
    ran = {mark: float(mark.read_text()) for mark in began}
    seconds = [ran[mark] - handed_in for mark, handed_in in began.items()]
    return {
        "first_hand_in_to_last_start_seconds": max(ran.values()) - min(began.values()),
        "each_seconds": spread(seconds),
        "mean_seconds": statistics.mean(seconds),
    }


def hand_in(cluster: SlurmCluster, count: int, place: Path, *options: str) -> dict[str, Any]:
    place.mkdir()
    began: dict[Path, float] = {}
    for number in range(count):
        mark = place / str(number)
        began[mark] = time.time()
        cluster.submit(program(mark), "--mem=16M", "--time=60", *options)
    return summary(began)


def submit(live: LiveManager, count: int, place: Path) -> dict[str, Any]:
    place.mkdir()
    marks = [place / str(number) for number in range(count)]
    began = dict.fromkeys(marks, time.time())
    live.submit(
        *(
            manifest(
                f"w{mark.name}", "sh", "-c", program(mark), profile={"mode": "none"},
                resources={"cpu": 1, "memory": "16Mi"}, target={"completionTime": "30m"},
            )
            for mark in marks
        )
    )  # fmt: skip
    return summary(began)


def held(count: int, seconds: float) -> dict[str, Any]:
    """Held jobs with targets beside plain ones; then the manager's share while they run."""
    if why := missing_slurm():
        return {"held": count, "skipped": f"Slurm is not installed; install it by: {why}"}
    with tempfile.TemporaryDirectory() as folder, slurm_cluster(nodes=nodes_for(count)) as cluster:
        place = Path(folder)
        place.chmod(0o755)
        (place / "shared").mkdir()
        options = ("--shared-dir", str(place / "shared"), "--policy", "least-loaded")
        found: dict[str, Any] = {"held": count, "plain": hand_in(cluster, count, place / "plain")}
        cluster.run("scancel", "--user=root")
        with running(place, *options, env=cluster.environment) as live:
            assert live.process is not None
            pid = live.process.pid
            before = cpu_seconds(pid)
            flags = ("--hold", "--comment", COMMENT)
            found["users"] = hand_in(cluster, count, place / "users", *flags)
            found["users_manager_cpu_seconds"] = cpu_seconds(pid) - before
            cluster.run("scancel", "--user=root")
            cluster.wait_until(lambda: all_over(live), "all are cancelled")
            before = cpu_seconds(pid)
            found["submitted"] = submit(live, count, place / "submitted")
            found["submitted_manager_cpu_seconds"] = cpu_seconds(pid) - before
            time.sleep(SETTLED_SECONDS)
            found |= percent({"manager": pid}, seconds)
        for kind in ("users", "submitted"):
            found[f"{kind}_ratio"] = {
                name: found[kind][name] / found["plain"][name]
                for name in ("first_hand_in_to_last_start_seconds", "mean_seconds")
            }
        return found


def all_over(live: LiveManager) -> bool:
    return all(workload["phase"] in ENDED for workload in live.workloads().values())


def own(count: int, seconds: float) -> dict[str, Any]:
    """The manager's share while so many workloads of its own run on a real cluster."""
    if why := missing_slurm():
        return {"own": count, "skipped": f"Slurm is not installed; install it by: {why}"}
    quiet = {"JobAcctGatherType": "jobacct_gather/none"}  # Its daemons would take both CPUs.
    cluster_of = slurm_cluster(nodes=nodes_for(count), settings=quiet)
    with tempfile.TemporaryDirectory() as folder, cluster_of as cluster:
        place = Path(folder)
        place.chmod(0o755)
        (place / "shared").mkdir()
        options = ("--shared-dir", str(place / "shared"), "--policy", "least-loaded")
        with running(place, *options, env=cluster.environment) as live:
            assert live.process is not None
            pid = live.process.pid
            sleepers = (
                manifest(
                    f"w{number}", "sleep", "3000", profile={"mode": "none"},
                    resources={"cpu": 1, "memory": "16Mi"},
                )
                for number in range(count)
            )  # fmt: skip
            began, before = time.monotonic(), cpu_seconds(pid)
            live.submit(*sleepers)
            live.wait_for(lambda found: all(w["phase"] == "running" for w in found.values()), 600)
            spent, took = cpu_seconds(pid) - before, time.monotonic() - began
            time.sleep(SETTLED_SECONDS)
            begun = {"until_all_run_seconds": took, "manager_cpu_seconds": spent}
            return {"own": count, **begun, **use_of(pid, seconds)}


def main() -> None:
    options = parser(__doc__.splitlines()[0])
    options.add_argument("--nodes", type=int, default=1000)
    options.add_argument("--jobs", type=int, default=10_000)
    options.add_argument("--held", type=int, default=100, help="held jobs (default: 100)")
    options.add_argument("--own", type=int, default=500, help="own workloads (default: 500)")
    options.add_argument("--seconds", type=float, default=60.0, help="watched (default: 60)")
    options.add_argument(
        "--only", choices=("polls", "beside", "held", "own"), help="one part (default: all)"
    )
    options.set_defaults(rounds=5)
    chosen = options.parse_args()
    versions = sorted(path.name for path in RECORDED.iterdir() if path.is_dir())
    size, seconds = (chosen.nodes, chosen.jobs), chosen.seconds
    parts: dict[str, Callable[[], list[dict[str, Any]]]] = {
        "polls": lambda: [polls(version, *size, chosen.rounds) for version in versions],
        "beside": lambda: [
            beside(version, nodes, jobs, seconds)
            for version in versions
            for nodes, jobs in (size, (6, 500))
        ],
        "held": lambda: [held(chosen.held, seconds)],
        "own": lambda: [own(chosen.own, seconds)],
    }
    wanted = [chosen.only] if chosen.only else list(parts)
    report("slurm", chosen, [result for part in wanted for result in parts[part]()])


if __name__ == "__main__":
    main()
