"""What a poll of a large Slurm cluster costs the manager: answers parsed and folded.

    python -m benchmarks.slurm_poll --nodes 1000 --jobs 10000

The recorded answers of each version are repeated under other ids and names until there are that
many. Times are CPU seconds of this process. Beside it stands its peer in the same run: the standard
library's ``json.loads`` of the same bytes, which makes every field an object and no value of ours.
"""

import argparse
import copy
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks._harness import machine, spread
from wharfinger.engines.slurm.client.client import jobs_poll, nodes_poll

RECORDED = Path("tests/unit/engines/slurm/recorded")


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


def seconds_of(call: Callable[[], object]) -> float:
    began = time.process_time()
    call()
    return time.process_time() - began


def measure(version: str, node_count: int, job_count: int, rounds: int) -> dict[str, Any]:
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
        "megabytes": (len(jobs["first"]) + len(nodes["first"])) / 1e6,
        "cpu_seconds": {name: spread(values) for name, values in times.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    versions = sorted(path.name for path in RECORDED.iterdir() if path.is_dir())
    result = {
        "nodes": arguments.nodes,
        "jobs": arguments.jobs,
        "machine": machine(),
        "versions": {
            version: measure(version, arguments.nodes, arguments.jobs, arguments.rounds)
            for version in versions
        },
    }
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
