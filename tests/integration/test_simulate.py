"""``wharfinger simulate`` and ``replay``, as users call them."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support import first_and_long
from wharfinger.simulator.pieces import PIECES

TIMES = {
    "wall_seconds",
    "peak_rss_bytes",
    "decision_microseconds_p50",
    "decision_microseconds_p99",
}
SMALL = ("synthetic", "--servers", "12", "--workloads", "60")


def wharfinger(
    *arguments: str, hash_seed: str = "0", before: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run a command; ``before`` is Python that is run first, in the same process."""
    code = f"{before}\nfrom wharfinger.cli.main import main\nraise SystemExit(main())"
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        check=False,
        capture_output=True,
        text=True,
    )


def simulated(*arguments: str, **how: str) -> dict[str, Any]:
    done = wharfinger("simulate", *arguments, "-o", "json", **how)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("policy", first_and_long(["sparrow", "oracle"]))
def test_the_same_seed_gives_the_same_bytes(tmp_path: Path, policy: str) -> None:
    """Whatever the hash seed, and whatever was imported before in which order."""
    odd = (
        "import wharfinger.simulator.oracle.greedy, wharfinger.policies.registry\n"
        "import wharfinger.service\n"
        "import random; random.seed(7)"
    )
    logs, summaries = [], []
    for number, (hash_seed, before) in enumerate((("0", ""), ("1", odd))):
        log = tmp_path / f"log{number}"
        how = {"hash_seed": hash_seed, "before": before}
        found = simulated(*SMALL, "--policy", policy, "--seed", "3", "--record", str(log), **how)
        logs.append(log.read_bytes())
        summaries.append({key: v for key, v in found.items() if key not in TIMES})
    assert logs[0] == logs[1]
    assert summaries[0] == summaries[1]
    other = simulated(*SMALL, "--policy", policy, "--seed", "4")
    assert other["makespan_seconds"] != summaries[0]["makespan_seconds"]


@pytest.mark.long
def test_a_recorded_run_is_decided_again_as_it_was(tmp_path: Path) -> None:
    log = tmp_path / "run.jsonl"
    simulated(*SMALL, "--policy", "least-loaded", "--record", str(log))
    done = wharfinger("replay", str(log))
    assert done.returncode == 0, done.stderr
    assert "the core decides all of it as the log has it" in done.stdout
    lines = log.read_text().splitlines(keepends=True)
    placed = next(at for at, line in enumerate(lines) if '"kind":"WorkloadPlaced"' in line)
    lines[placed] = lines[placed].replace('"placements":[{"server":"', '"placements":[{"server":"x')
    log.write_text("".join(lines))
    done = wharfinger("replay", str(log), "-o", "json")
    found = json.loads(done.stdout)
    assert done.returncode == 3
    assert found["difference"]["entry"] == placed
    assert not found["same"]


@pytest.mark.long
def test_two_policies_are_compared_on_the_same_draws() -> None:
    done = wharfinger(
        "simulate", *SMALL, "--compare", "least-loaded,random", "--repeats", "2", "-o", "json"
    )
    assert done.returncode == 0, done.stderr
    first, second = json.loads(done.stdout)
    assert (first["name"], second["name"]) == ("least-loaded", "random")
    assert first["seeds"] == second["seeds"] == [0, 1]
    assert first["difference"] is None
    assert second["difference"]["workloads"]["mean"] == 0


@pytest.mark.long
def test_a_policy_with_settings_is_compared_with_itself() -> None:
    found = simulated(*SMALL, "--compare", "random,random[seed=5]", "--repeats", "1")
    assert [policy["name"] for policy in found] == ["random", "random[seed=5]"]


@pytest.mark.long
def test_parts_of_a_policy_are_exchanged_and_recorded(tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    parts = (
        "--admission",
        "fifo[max_waiting=9]",
        "--adaptation",
        "by-load",
        "--contention",
        "none",
    )
    found = simulated(*SMALL, "--policy", "feedback", *parts, "--record", str(file))
    assert found["admission"] == "fifo"
    started = next(
        line["event"]
        for line in map(json.loads, file.read_text().splitlines()[1:])
        if line["kind"] == "ManagerStarted"
    )
    assert started["settings"]["admission"] == {"name": "fifo", "max_waiting": 9, "backfill": 32}
    assert started["settings"]["adaptation"]["name"] == "by-load"
    assert started["settings"]["contention"] == {"name": "none"}
    assert wharfinger("replay", str(file)).returncode == 0


def test_it_says_why_a_workload_was_where_it_was() -> None:
    lost = wharfinger("simulate", *SMALL, "--policy", "least-loaded", "--explain", "nobody")
    first = lost.stderr.split()[-1]
    found = simulated(*SMALL, "--policy", "least-loaded", "--explain", first)
    assert found["explanation"]["name"] == first
    stages = [decision["stage"] for decision in found["explanation"]["decisions"]]
    assert stages == ["admission", "placement"]


@pytest.mark.long
def test_it_says_how_a_workload_was_adjusted_as_the_api_does() -> None:
    busy = str(Path(__file__).parents[1] / "golden" / "scenarios" / "busy.yaml")
    call = (busy, "--seed", "2", "--policy", "feedback", "--explain", "shop-01")
    adjustments = simulated(*call)["explanation"]["workload"]["adjustments"]
    assert adjustments
    assert all({"from", "to"} <= set(one) and "source" not in one for one in adjustments)
    page = wharfinger("simulate", *call)
    assert page.returncode == 0
    assert "What was done since it was placed" in page.stdout
    assert "reduced from" in page.stdout
    assert "raised from" in wharfinger("simulate", *call, "-o", "wide").stdout


@pytest.mark.long
def test_pictures_are_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    directory = tmp_path / "plots"
    found = simulated(*SMALL, "--policy", "least-loaded", "--plots", str(directory))
    names = {path.name for path in directory.iterdir()}
    assert names == {Path(file).name for file in found["files"]}
    assert {"performance.png", "performance.svg", "utilization.png", "cores.svg"} <= names


# Words for one thing contradict one another: each but the first of a pair.
TOGETHER = [word for word in PIECES if word not in {"fractional-cpus", "resize"}]


@pytest.mark.parametrize("policy", ["+".join([*TOGETHER, "quasar"]), "stated+autoscale"])
def test_all_words_may_stand_before_a_policy(policy: str):
    told = simulated("paragon-local-low", "--policy", policy, "--servers", "4", "--workloads", "3")
    assert told["policy"] == policy


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "SCENARIO is missing"),
        (("no-such-scenario",), "no-such-scenario"),
        (("synthetic", "--policy", "best"), "'best' is not a policy"),
        (("synthetic", "--compare", "random,random"), "names a policy twice"),
        (("synthetic", "--policy", "quasar[best=1]"), "'best' is not a setting; near it are"),
        (("synthetic", "--adaptation", "by-load[best=1]"), "'best' is not a setting; "),
        (
            ("synthetic", "--contention", "by-luck"),
            "there are none, by-source, by-",
        ),
        (("synthetic", "--compare", "random,sparrow[a=1,b=2]"), "'a' is not a setting"),
        (("synthetic", "--repeats", "3"), "--repeats is for --compare"),
        (("synthetic", "--workloads", "999999999"), "--workloads: 999999999 workloads on "),
        (("synthetic", "--servers", "0"), "'0': write a whole number from 1"),
        (("synthetic", "--confidence", "2"), "'2': write a probability"),
        (("synthetic", "--plots", "/dev/null/x"), "--plots /dev/null/x"),
        (("synthetic", "--workloads", "3", "--explain", "nobody"), "'nobody' is no workload"),
        (("measured:/no/such/tables",), "/no/such/tables"),
    ],
)
def test_a_wrong_call_is_one_line(arguments: tuple[str, ...], said: str) -> None:
    done = wharfinger("simulate", *arguments)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert said in done.stderr


@pytest.mark.long
def test_a_record_that_can_not_be_written_is_refused_before_the_run(tmp_path: Path) -> None:
    for place in (str(tmp_path), str(tmp_path / "no" / "file"), "/dev/null"):
        done = wharfinger("simulate", *SMALL, "--policy", "random", "--record", place)
        assert done.returncode == 2
        assert len(done.stderr.splitlines()) == 1
        assert place in done.stderr


def test_what_a_recorded_run_says_itself_is_no_option(tmp_path: Path) -> None:
    done = wharfinger("replay", str(tmp_path / "log"), "--confidence", "0.9")
    assert done.returncode == 2
    assert "--confidence is for a manager's state directory" in done.stderr


@pytest.mark.parametrize("content", ["", "no json\n", '{"format": 99}\n', '{"format": 1}\n'])
def test_what_is_no_recorded_run_is_refused(tmp_path: Path, content: str) -> None:
    file = tmp_path / "log"
    file.write_text(content)
    done = wharfinger("replay", str(file))
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert str(file) in done.stderr
