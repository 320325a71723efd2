"""What ``run``'s options stand for, and the words after them."""

import argparse
import json
import re

import pytest

from wharfinger.cli.main import build_parser
from wharfinger.cli.run import make_manifest
from wharfinger.errors import InvalidInput
from wharfinger.manifest import load_manifests
from wharfinger.model.workload import ProfileMode, RestartPolicy, Workload, WorkloadType


def parsed(*argv: str) -> argparse.Namespace:
    return build_parser(["run"]).parse_args(["run", *argv])


def workload(*argv: str) -> Workload:
    """What a manager makes of a call."""
    manifest = json.dumps(make_manifest(parsed(*argv), {"HOME": "/home/me"}))
    (made,) = load_manifests(manifest, source="run", working_directory="/here")
    return made


def test_what_follows_the_program_is_the_programs():
    assert parsed("--cpu", "1", "--", "sh", "-c", "x", "--", "--cpu", "2").words == [
        "sh", "-c", "x", "--", "--cpu", "2"
    ]  # fmt: skip
    assert parsed("sleep", "10").words == ["sleep", "10"]
    executed = build_parser(["exec"]).parse_args(["exec", "a", "--", "echo", "-n", "--", "x"])
    assert (executed.name, executed.words) == ("a", ["echo", "-n", "--", "x"])
    assert parsed("--rm", "--", "get", "--name", "n").name is None


def test_the_type_follows_from_the_target():
    regex = ("--measure-regex", "done (\\d+)")
    service = workload("--p99", "5ms", "--throughput", "1k/s", *regex, "--", "svc")
    assert service.type is WorkloadType.LATENCY_CRITICAL
    assert service.target is not None
    assert service.target.latency is not None
    assert (service.target.latency.percentile, service.target.latency.below_seconds) == (99, 0.005)
    assert service.target.throughput_per_second == 1000
    assert service.profile.mode is ProfileMode.COPY
    job = workload("--within", "10m", "--", "job")
    assert (job.type, job.target and job.target.completion_seconds) == (WorkloadType.BATCH, 600)
    rate = workload("--rate", "5/s", *regex, "--", "job")
    assert (rate.type, rate.target and rate.target.rate_per_second) == (WorkloadType.BATCH, 5)
    nothing = workload("--", "job")
    assert (nothing.type, nothing.target) == (WorkloadType.BATCH, None)
    assert nothing.profile.mode is ProfileMode.NONE
    assert workload("--profile", "copy", "--", "job").profile.mode is ProfileMode.COPY


def test_the_name_is_made_from_the_programs():
    made = [workload("--", "/usr/bin/Redis_Server.7", "x").name for _ in range(2)]
    assert all(re.fullmatch(r"redis-server-7-[0-9a-f]{6}", name) for name in made)
    assert made[0] != made[1]
    assert workload("--", "__").name.startswith("run-")
    assert len(workload("--", "x" * 300).name) <= 63
    assert workload("--name", "cache", "--", "redis").name == "cache"


def test_options_set_the_manifests_fields():
    made = workload(
        "--cpu", "500m", "--memory", "1Gi", "--priority", "3", "--env", "A=b=c", "--env", "HOME",
        "--workdir", "sub", "--", "job", "x",
    )  # fmt: skip
    assert (made.reservation.cpu_millicpus, made.reservation.memory_bytes) == (500, 1024**3)
    assert made.priority == 3
    assert made.run.command == ("job", "x")
    assert made.run.env == {"A": "b=c", "HOME": "/home/me"}
    assert made.run.working_directory == "/here/sub"
    service = workload(
        "--p95", "1s", "--ready-port", "80", "--time-limit", "1h", "--restart", "always",
        "--tolerance", "10%", "--", "svc",
    )  # fmt: skip
    assert (service.run.ready and service.run.ready.port) == 80
    assert (service.run.time_limit_seconds, service.tolerance) == (3600, 0.1)
    assert service.run.restart.policy is RestartPolicy.ALWAYS
    answers = workload("--ready-http", "http://127.0.0.1:80/up", "--", "svc")
    assert (answers.run.ready and answers.run.ready.http) == "http://127.0.0.1:80/up"


def test_what_is_waited_for_is_not_started_again():
    target = ("--p99", "5ms")
    assert workload(*target, "--", "svc").run.restart.policy is RestartPolicy.NEVER
    assert workload(*target, "--detach", "--", "svc").run.restart.policy is RestartPolicy.ON_FAILURE
    assert workload("--detach", "--rm", "--", "job").ttl_after_finished_seconds == 1


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--p99", "5ms", "--p95", "2ms"], "--p95 and --p99: a target has one bound"),
        (["--p99", "5ms", "--within", "1m"], "leave --within and --rate out"),
        (["--env", "LOST"], "'LOST' is not in your environment; write LOST=VALUE"),
    ],
)
def test_what_can_not_be_is_refused(argv: list[str], words: str):
    with pytest.raises(InvalidInput, match=re.escape(words)):
        make_manifest(parsed(*argv, "--", "x"), {})
