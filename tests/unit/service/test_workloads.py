"""Handing in, showing, changing and stopping workloads over the API."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from tests.support.api import Api, manifest
from tests.support.cluster import LABELLED
from wharfinger.cli.explain import explanation_text
from wharfinger.model.workload import (
    After,
    ArrayMember,
    Reservation,
    Restart,
    RestartPolicy,
    Run,
    Schedule,
    Workload,
    WorkloadType,
)
from wharfinger.policies.registry import make_policy
from wharfinger.service.models import timestamp
from wharfinger.testing.memory import MemoryCluster

SMALL_JOB = Workload(
    "small", WorkloadType.BATCH, Run(("forever",)), reservation=Reservation(500, 2**20)
)


def error(response: httpx.Response) -> dict[str, object]:
    """The error of an answer, which has the one form that errors have."""
    body = response.json()
    assert list(body) == ["error"]
    detail: dict[str, object] = body["error"]
    assert {"code", "message", "retryable"} <= set(detail)
    assert "\n" not in str(detail["message"])
    return detail


def test_a_workload_is_created_once_and_then_unchanged(api: Api):
    first = api.submit(manifest("a"))
    again = api.submit(manifest("a"))
    (created,), (unchanged,) = first.json(), again.json()
    assert (first.status_code, created["outcome"], created["created"]) == (201, "created", True)
    assert (again.status_code, unchanged["outcome"], unchanged["run"]) == (200, "unchanged", 1)
    assert len(api.cluster.running()) == 1


def test_what_is_acknowledged_is_in_the_log(api: Api):
    api.submit(manifest("a"))
    kinds = [entry.kind for entry in api.store.read() if b'"a"' in entry.payload]
    assert "WorkloadSubmitted" in kinds


def test_another_workload_of_the_same_name_is_a_conflict(api: Api):
    api.submit(manifest("a"))
    response = api.submit(manifest("a", "other"))
    assert response.status_code == 409
    assert "use update or apply" in str(error(response)["message"])


def test_a_request_is_taken_in_whole_or_not_at_all(api: Api):
    api.submit(manifest("a"))
    assert api.submit(manifest("b"), manifest("a", "other")).status_code == 409
    assert [w["name"] for w in api.get("/v1/workloads")] == ["a"]


def test_every_problem_of_a_manifest_is_named_with_its_place(api: Api):
    bad = manifest("a", priority="high", colour="red")
    response = api.submit(bad, source="jobs.yaml")
    detail = error(response)
    assert (response.status_code, detail["code"]) == (400, "invalid-manifest")
    problems = detail["problems"]
    assert isinstance(problems, list)
    assert len(problems) == 2
    assert all(str(problem).startswith("jobs.yaml:1: ") for problem in problems)


@pytest.mark.parametrize("body", [b"", b"\xff\xfe\x00", b"[" * 5000, b"a: &a [*a]", b"3"])
def test_hostile_bodies_are_refused_in_one_line(api: Api, body: bytes):
    response = api.call("POST", "/v1/workloads", content=body)
    assert response.status_code == 400
    assert len(str(error(response)["message"])) < 1000


def test_a_body_that_is_too_large_is_refused_while_it_comes(api: Api):
    sent = 0

    async def endless() -> object:
        nonlocal sent
        while sent < 64:
            sent += 1
            yield b"#" * 1024**2

    response = api.call("POST", "/v1/workloads", content=endless())
    assert (response.status_code, error(response)["code"]) == (413, "too-large")
    assert sent < 10
    declared = api.call("POST", "/v1/workloads", content=b"#" * (4 * 1024**2 + 1))
    assert declared.status_code == 413


def test_the_working_directory_must_be_absolute(api: Api):
    assert api.submit(manifest("a"), working_directory="here").status_code == 400
    run = {"command": ["x"], "workingDir": "sub"}
    assert api.submit(manifest("a", run=run), working_directory="/srv").status_code == 201
    detail = api.get("/v1/workloads/a")
    assert detail["manifest"]["spec"]["run"]["workingDir"] == "/srv/sub"


def test_a_dry_run_decides_and_takes_nothing(api: Api):
    response = api.submit(manifest("a"), dry_run="true")
    assert response.status_code == 200
    stages = [decision["stage"] for decision in response.json()[0]["decisions"]]
    assert stages == ["admission", "placement"]
    assert api.get("/v1/workloads") == []


def test_a_dry_run_does_not_count_itself_among_those_that_wait(api: Api):
    def admission() -> list[str]:
        answer = api.submit(manifest("waits", cpu="3"), dry_run="true").json()
        decisions = answer[0]["decisions"]
        assert [d["message"] for d in decisions if d["reason"] == "behind-others"] == []
        return [d["message"] for d in decisions if d["stage"] == "admission"]

    api.submit(manifest("big", cpu="3"))
    assert admission() == ["none waits before it"]
    api.submit(manifest("waits", cpu="3"))
    # It waits itself now, and nothing is before it.
    assert admission() == []


def test_a_list_can_be_narrowed(api: Api):
    labelled = manifest("b", "true")
    labelled["metadata"]["labels"] = {"team": "web"}
    api.submit(manifest("a"), labelled)

    def names(**query: str) -> list[str]:
        return [workload["name"] for workload in api.get("/v1/workloads", **query)]

    assert names() == ["a", "b"]
    assert names(phase="ended") == ["b"]
    assert names(phase="live") == names(phase="running") == ["a"]
    assert names(label="team=web") == ["b"]
    assert names(label="team=db") == []
    assert names(name="a") == ["a"]
    assert api.call("GET", "/v1/workloads", params={"name": "c"}).status_code == 404
    assert api.call("GET", "/v1/workloads", params={"phase": "dreaming"}).status_code == 400
    assert api.call("GET", "/v1/workloads", params={"label": "team"}).status_code == 400


def test_a_workload_that_ends_says_how(api: Api):
    api.submit(manifest("ok", "true"), manifest("bad", "exit", "3"), manifest("hit", "signal", "9"))
    found = {w["name"]: w for w in api.get("/v1/workloads")}
    assert (found["ok"]["phase"], found["ok"]["exit_code"]) == ("completed", 0)
    assert (found["bad"]["phase"], found["bad"]["exit_code"]) == ("failed", 3)
    assert (found["hit"]["exit_code"], found["hit"]["signal"]) == (None, 9)
    assert found["ok"]["servers"] == ["a"]
    assert found["ok"]["cpus"] == 1.0


def test_a_completion_time_is_held_against_its_target(api: Api):
    api.submit(manifest("quick", "sleep", "60", target={"completionTime": "10m"}, tolerance="5%"))
    api.submit(manifest("late", "sleep", "700", target={"completionTime": "10m"}, tolerance="5%"))
    assert api.get("/v1/workloads/quick")["met"] is None
    api.now += 60
    api.cluster.advance(60)
    api.call("GET", "/healthz")
    assert api.get("/v1/status")["phases"]["completed"] == 1
    quick = api.get("/v1/workloads/quick")
    assert (quick["achieved"]["completion_seconds"], quick["met"]) == (60.0, True)
    assert api.get("/v1/workloads/late")["met"] is None
    api.now += 575
    assert api.get("/v1/workloads/late")["met"] is False


def test_explain_says_who_is_before_it_and_what_would_change(api: Api):
    api.submit(manifest("big", cpu="3"), manifest("first", cpu="2"), manifest("second", cpu="2"))
    waiting = api.get("/v1/workloads/second/explain")["waiting"]
    assert (waiting["position"], waiting["length"], waiting["first"]) == (2, 2, "first")
    assert "no server has 2 CPU" in waiting["first_message"]
    (now,) = waiting["now"]
    assert (now["accepted"], now["reason"]) == (False, "no-room")
    assert "1 CPU" in now["would_change"]
    assert now["candidates"][0]["name"] == "a"
    big = api.get("/v1/workloads/big/explain")
    assert big["waiting"] is None
    assert [d["stage"] for d in big["decisions"]] == ["admission", "placement"]


def test_a_patch_changes_what_it_names_and_nothing_else(api: Api):
    api.submit(manifest("a", priority=3))
    patch = {"spec": {"resources": {"cpu": "500m"}}}
    response = api.call("PATCH", "/v1/workloads/a", json=patch)
    assert response.status_code == 200, response.text
    found = api.get("/v1/workloads/a")
    assert (found["cpus"], found["priority"]) == (0.5, 3)
    assert found["manifest"]["spec"]["resources"]["memory"] == "64Mi"


@pytest.mark.parametrize(
    ("patch", "words"),
    [
        ({"spec": {"resources": {"cpu": "-1"}}}, "cpu"),
        ({"spec": {"run": {"command": ["other"]}}}, "program can't be changed"),
        ({"metadata": {"name": "b"}}, "a workload keeps its name"),
        ({"spec": None}, "spec"),
        ([1], "not a JSON object"),
    ],
)
def test_a_wrong_patch_changes_nothing(api: Api, patch: object, words: str):
    api.submit(manifest("a"))
    before = api.get("/v1/workloads/a")["manifest"]
    response = api.call("PATCH", "/v1/workloads/a", json=patch)
    assert response.status_code in (400, 409)
    message = str(error(response)["message"])
    assert words in message
    assert "update:1" not in message
    assert api.get("/v1/workloads/a")["manifest"] == before


@pytest.mark.slow
def test_a_whole_manifest_replaces_the_old(api: Api):
    api.submit(manifest("a", priority=3))
    response = api.call("PUT", "/v1/workloads/a", content=json.dumps(manifest("a", priority=9)))
    assert response.json()["priority"] == 9
    other = api.call("PUT", "/v1/workloads/a", content=json.dumps(manifest("b")))
    assert other.status_code == 400
    assert api.call("PUT", "/v1/workloads/c", content=json.dumps(manifest("c"))).status_code == 404


def test_nothing_waits_before_its_time_or_that_of_what_it_is_after(api: Api):
    api.driver.runtime.submit([replace(SMALL_JOB, name="first")])
    waits = replace(SMALL_JOB, name="waits", after=After(ended=("first",)))
    large = replace(SMALL_JOB.reservation, cpu_millicpus=64_000)
    nightly = replace(SMALL_JOB, name="nightly", schedule=Schedule("0 2 * * *"), reservation=large)
    api.driver.runtime.submit([waits, nightly])
    due = api.now + 13_600
    api.now = due - 600
    waited = {w["name"]: w["wait_seconds"] for w in api.get("/v1/workloads")}
    assert (waited["waits"], waited["nightly"]) == (0, 0)
    api.now = due + 50
    api.driver.runtime.tick()
    nightly_now = api.get("/v1/workloads/nightly")
    assert (nightly_now["phase"], nightly_now["wait_seconds"]) == ("queued", 50)
    assert api.get("/v1/queues")[0]["oldest_wait_seconds"] == 50
    assert api.get("/v1/workloads/waits")["wait_seconds"] == 0
    act(api, "first", "stop")
    assert api.get("/v1/workloads/waits")["wait_seconds"] == 0, "it began at once"


def test_one_deletion_stops_what_lives_and_drops_it_after_its_end(api: Api):
    api.submit(manifest("a"), manifest("b", "true"))
    assert api.call("DELETE", "/v1/workloads/a").json() == {"name": "a", "outcome": "stopping"}
    assert api.call("DELETE", "/v1/workloads/b").json() == {"name": "b", "outcome": "deleted"}
    assert api.cluster.running() == ()
    assert api.get("/v1/workloads") == []
    assert api.call("DELETE", "/v1/workloads/a").status_code == 404


def test_what_is_stopped_keeps_its_record_and_output(api: Api):
    api.submit(manifest("a"))
    assert act(api, "a", "stop") == (200, "stopping")
    assert api.cluster.running() == ()
    assert api.get("/v1/workloads/a")["phase"] == "revoked"
    assert act(api, "a", "stop") == (200, "ended")
    assert act(api, "none", "stop") == (404, "not-found")


def act(api: Api, name: str, verb: str) -> tuple[int, str]:
    """The status of one request about a workload, and its outcome, or the error's code."""
    response = api.call("POST", f"/v1/workloads/{name}/{verb}")
    body = response.json()
    return response.status_code, body["outcome"] if "outcome" in body else body["error"]["code"]


def test_what_has_ended_runs_again_when_it_is_submitted_again(api: Api):
    api.submit(manifest("a", "print", "hello"))
    again = api.submit(manifest("a", "print", "hello"))
    assert (again.status_code, again.json()[0]["outcome"], again.json()[0]["run"]) == (
        201,
        "runs-again",
        2,
    )
    found = api.get("/v1/workloads/a")
    assert (found["run"], found["phase"]) == (2, "completed")
    assert [(run["run"], run["phase"]) for run in found["previous"]] == [(1, "completed")]
    repeated = api.submit(manifest("a", "print", "hello"), once="true")
    assert (repeated.status_code, repeated.json()[0]["outcome"]) == (200, "unchanged")


def test_what_has_no_effect_is_warned_of(api: Api):
    costly = manifest("a", cost={"maxPerHour": 3})
    for query in ({"dry_run": "true"}, {}):
        (submitted,) = api.submit(costly, **query).json()
        (warning,) = submitted["warnings"]
        assert "cost.maxPerHour" in warning


def test_the_history_keeps_runs_of_what_was_deleted(api: Api):
    for name in ("a", "a", "b"):
        api.submit(manifest(name, "exit", "3"))
    api.call("DELETE", "/v1/workloads/a")
    ended = [(run["name"], run["run"], run["exit_code"]) for run in api.get("/v1/history")]
    assert ended == [("a", 1, 3), ("a", 2, 3), ("b", 1, 3)]
    assert [run["name"] for run in api.get("/v1/history", name="b")] == ["b"]
    assert [run["run"] for run in api.get("/v1/history", name="a", limit=1)] == [2]


def test_a_manifest_is_applied_whatever_there_is(api: Api):
    def apply(*manifests: dict[str, object], **query: str) -> list[str]:
        body = "\n---\n".join(map(json.dumps, manifests))
        response = api.call("PUT", "/v1/workloads", content=body, params=query)
        assert response.status_code in (200, 201), response.text
        return [one["outcome"] for one in response.json()]

    assert apply(manifest("a"), manifest("b")) == ["created", "created"]
    assert apply(manifest("a", priority=4), manifest("b"), dry_run="true") == [
        "updated",
        "unchanged",
    ]
    assert api.get("/v1/workloads/a")["priority"] == 0
    assert apply(manifest("a", priority=4), manifest("b")) == ["updated", "unchanged"]
    assert api.get("/v1/workloads/a")["priority"] == 4
    assert apply(manifest("a", "print", "x")) == ["replaced"]
    assert api.get("/v1/workloads/a")["run"] == 2


def test_a_program_is_restarted_on_request(api: Api):
    api.submit(manifest("a"))
    before = api.get("/v1/workloads/a")
    assert act(api, "a", "restart") == (200, "restarting")
    found = api.get("/v1/workloads/a")
    assert (found["phase"], found["run"], found["restarts"]) == ("running", 1, 1)
    assert found["key"] != before["key"]
    notes = api.get("/v1/workloads/a/explain")["notes"]
    assert "it was started again once in run 1, 0 in a row (at most 5 in a row)" in notes


def test_a_user_suspends_and_resumes(api: Api):
    api.submit(manifest("a"))
    assert act(api, "a", "suspend") == (200, "suspended")
    found = api.get("/v1/workloads/a")
    assert (found["phase"], found["paused"]) == ("suspended", True)
    told = api.get("/v1/workloads/a/explain")["notes"]
    assert told[0] == "its user has suspended it: it gets no CPU time until it is resumed"
    assert act(api, "a", "resume") == (200, "resumed")
    assert api.get("/v1/workloads/a")["paused"] is False
    api.submit(manifest("b", "true"))
    assert act(api, "b", "suspend") == (409, "conflict")


def test_what_else_holds_is_told_in_words(api: Api):
    waits = replace(SMALL_JOB, name="waits", after=After(completed=("first",)))
    nightly = replace(SMALL_JOB, name="nightly", schedule=Schedule("0 2 * * *"))
    first = replace(SMALL_JOB, name="first")
    crashes = replace(
        SMALL_JOB,
        name="crashes",
        run=Run(("exit", "3"), restart=Restart(RestartPolicy.ON_FAILURE, 4, 2.0)),
    )
    api.driver.runtime.submit([first, waits, nightly, crashes])
    api.call("GET", "/healthz")

    def told(name: str) -> list[str]:
        notes: list[str] = api.get(f"/v1/workloads/{name}/explain")["notes"]
        return notes

    assert told("waits") == ["before it is started, first (running) must complete"]
    assert told("nightly") == [
        "it runs on the schedule '0 2 * * *' (UTC): next at 2023-11-15T02:00:00.000Z"
    ]
    again, later = told("crashes")
    assert again == "it was started again once in run 1, 1 in a row (at most 4 in a row)"
    assert later.startswith("it is not started again before 2023-11-14T22:13:22")
    found = api.get("/v1/workloads/crashes")
    assert (found["phase"], found["restarts"], found["ready"]) == ("queued", 1, None)


def test_what_is_down_keeps_no_target(api: Api):
    target = {"completionTime": "10m"}
    api.submit(manifest("a", "exit", "3", target=target))
    assert api.get("/v1/workloads/a")["met"] is False


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/v1/workloads?dryRun=true", "did you mean dry_run?"),
        ("/v1/workloads?dry-run=true", "did you mean dry_run?"),
        ("/v1/workloads?colour=red", "there are dry_run, once, working_directory, source"),
    ],
)
def test_a_parameter_that_there_is_not_starts_nothing(api: Api, path: str, words: str):
    response = api.call("POST", path, content=json.dumps(manifest("a")))
    assert response.status_code == 400
    assert words in str(error(response)["message"])
    assert api.get("/v1/workloads") == []


def test_a_dry_run_of_an_update_tells_each_field_and_changes_none(api: Api):
    run = {"command": ["forever"], "env": {"PASSWORD": "hunter2"}}
    api.submit(manifest("a", run=run))
    before = api.get("/v1/workloads/a")["manifest"]
    patch = {"spec": {"resources": {"memory": "128Mi"}, "priority": 3}}
    response = api.call("PATCH", "/v1/workloads/a", json=patch, params={"dry_run": "true"})
    assert response.status_code == 200, response.text
    preview = response.json()
    assert preview["changes"] == [
        {"name": "spec.priority", "from": 0, "to": 3},
        {"name": "spec.resources.memory", "from": "64Mi", "to": "128Mi"},
    ]
    assert isinstance(preview["decisions"], list)
    assert api.get("/v1/workloads/a")["manifest"] == before
    other = {**run, "env": {"PASSWORD": "other"}}
    body = json.dumps(manifest("a", run=other))
    query = {"dry_run": "true"}
    (applied,) = api.call("PUT", "/v1/workloads", content=body, params=query).json()
    assert (applied["outcome"], applied["changes"]) == (
        "replaced",
        [{"name": "spec.run.env.PASSWORD", "from": "***", "to": "***"}],
    )


def test_output_is_read_piece_by_piece(api: Api):
    api.submit(manifest("a", "print", "hello world"))
    first = api.call("GET", "/v1/workloads/a/log", params={"limit_bytes": 5})
    assert first.content == b"hello"
    offset = first.headers["wharfinger-next-offset"]
    rest = api.call("GET", "/v1/workloads/a/log", params={"offset": offset})
    assert (rest.content, rest.headers["wharfinger-ended"]) == (b" world", "true")
    tail = api.call("GET", "/v1/workloads/a/log", params={"offset": -3})
    assert tail.content == b"rld"


def test_a_workload_that_was_never_started_has_no_output(api: Api):
    api.submit(manifest("big", cpu="3"), manifest("waits", cpu="3"))
    answer = api.call("GET", "/v1/workloads/waits/log")
    assert (answer.content, answer.headers["wharfinger-ended"]) == (b"", "false")


def test_output_of_the_start_before_is_kept(api: Api):
    api.submit(manifest("a", "print", "old"))
    none = api.call("GET", "/v1/workloads/a/log", params={"previous": "true"})
    assert (none.status_code, error(none)["code"]) == (404, "not-found")
    api.submit(manifest("a", "print", "new"))
    new = api.call("GET", "/v1/workloads/a/log")
    old = api.call("GET", "/v1/workloads/a/log", params={"previous": "true"})
    assert (new.content, old.content) == (b"new", b"old")
    assert new.headers["wharfinger-key"] != old.headers["wharfinger-key"]


def test_output_is_shown_with_its_times_and_since_one(api: Api):
    api.submit(manifest("a", "print", "one\ntwo\n"))

    def log(**query: object) -> bytes:
        return api.call("GET", "/v1/workloads/a/log", params=query).content

    begun = timestamp(0.0).encode()  # by the memory engine's own clock
    assert log(timestamps=True) == begun + b" one\n" + begun + b" two\n"
    assert log(timestamps=True, offset=2) == b"e\n" + begun + b" two\n"
    assert log(timestamps=True, offset=4) == begun + b" two\n"
    assert log(since_seconds=5) == b""
    assert log(since_seconds=api.now + 5) == b"one\ntwo\n"
    assert log(since_seconds=api.now + 5, offset=-4) == b"two\n"


def test_a_load_generators_output_has_no_times(api: Api):
    api.submit(manifest("a"))
    response = api.call("GET", "/v1/workloads/a/log", params={"source": "load"})
    assert (response.status_code, response.content) == (200, b"")
    wrong = api.call("GET", "/v1/workloads/a/log", params={"source": "load", "timestamps": "1"})
    assert (wrong.status_code, error(wrong)["code"]) == (400, "invalid-input")


def test_a_follower_is_told_of_a_new_start(api: Api):
    api.submit(manifest("a"))
    first = api.call("GET", "/v1/workloads/a/log").headers
    api.call("POST", "/v1/workloads/a/restart")
    second = api.call("GET", "/v1/workloads/a/log").headers
    assert first["wharfinger-key"] != second["wharfinger-key"]
    assert (first["wharfinger-ended"], second["wharfinger-ended"]) == ("false", "false")


def test_a_command_runs_beside_a_program_only(api: Api):
    api.submit(manifest("a"), manifest("b", "true"))

    def execute(name: str, body: object) -> tuple[int, str]:
        response = api.call("POST", f"/v1/workloads/{name}/exec", json=body)
        return response.status_code, str(error(response)["message"])

    assert execute("b", {"command": ["id"]}) == (409, "workload 'b' does not run (completed)")
    assert execute("a", {"command": ["id"]})[0] == 400
    assert execute("c", {"command": ["id"]})[0] == 404
    for wrong in (
        {},
        {"command": []},
        {"command": "id"},
        {"command": ["a\0b"]},
        [],
        {"cmd": ["id"]},
    ):
        assert execute("a", wrong)[0] == 400


ARRAY = [replace(SMALL_JOB, name=f"job-{n}", array=ArrayMember("job", n, 2)) for n in range(3)]


def test_an_arrays_name_means_its_members(api: Api):
    api.driver.runtime.submit(ARRAY)
    assert [w["name"] for w in api.get("/v1/workloads", name="job")] == ["job-0", "job-1", "job-2"]
    one = api.get("/v1/workloads/job-1")
    assert (one["array"], one["index"]) == ("job", 1)
    missing = api.call("GET", "/v1/workloads/job")
    assert missing.status_code == 404
    assert "an array of 3 workloads; name one of its members, e.g. 'job-0'" in missing.text
    told = api.get("/v1/workloads/job-2/explain")["notes"]
    assert told == ["it is number 2 of array job, of which 2 may be on servers at once; 2 are"]
    patch = {"spec": {"priority": 7}}
    assert api.call("PATCH", "/v1/workloads/job", json=patch).status_code == 200
    assert {w["priority"] for w in api.get("/v1/workloads", name="job")} == {7}
    assert act(api, "job", "stop") == (200, "stopping")
    assert {w["phase"] for w in api.get("/v1/workloads", name="job")} == {"revoked"}
    assert {run["name"] for run in api.get("/v1/history", name="job")} == {w.name for w in ARRAY}
    assert api.call("DELETE", "/v1/workloads/job").json()["outcome"] == "deleted"
    assert api.get("/v1/workloads") == []


def test_usage_names_what_runs(api: Api):
    api.submit(manifest("a"), manifest("b", "true"))
    (usage,) = api.get("/v1/usage")
    assert (usage["name"], usage["cpus"], usage["processes"]) == ("a", 1.0, 1)
    assert api.get("/v1/workloads/a/usage")["name"] == "a"
    assert api.call("GET", "/v1/workloads/b/usage").status_code == 404


def test_values_of_the_environment_are_never_shown(api: Api):
    secret = "hunter2-hunter2"
    run = {"command": ["forever"], "env": {"PASSWORD": secret}}
    api.submit(manifest("a", run=run))
    api.call("PATCH", "/v1/workloads/a", json={"spec": {"priority": 4}})
    shown = [
        api.call("GET", path).text
        for path in (
            "/v1/workloads",
            "/v1/workloads/a",
            "/v1/workloads/a/explain",
            "/v1/servers/a",
            "/v1/events",
            "/v1/status",
            "/metrics",
        )
    ]
    shown.append(api.submit(manifest("a", run=run), dry_run="true").text)
    assert not [text for text in shown if secret in text]
    assert '"PASSWORD":"***"' in shown[4].replace(" ", "")
    # What is hidden is not lost: the program still gets it.
    assert api.runtime.manager.find("a").workload.run.env == {"PASSWORD": secret}


def test_no_room_on_disk_refuses_new_work_and_says_so(tmp_path: Path):
    api = Api(tmp_path, free_disk_floor_bytes=2**60)
    try:
        response = api.submit(manifest("a"))
        assert (response.status_code, error(response)["retryable"]) == (507, True)
        assert api.get("/v1/status")["accepting"] is False
        assert api.get("/v1/workloads") == []
    finally:
        api.close()


def test_a_fault_of_the_store_stops_the_manager_and_is_told_without_a_traceback(
    api: Api, monkeypatch: pytest.MonkeyPatch
):
    def broken(*_: object, **__: object) -> int:
        raise RuntimeError("the disk is on fire")

    with monkeypatch.context() as patch:
        patch.setattr(api.store, "append", broken)
        response = api.submit(manifest("a"))
    assert response.status_code == 503
    assert "Traceback" not in response.text
    assert api.stopped
    # Memory may be ahead of the log now: nothing more is taken in.
    assert api.submit(manifest("b")).status_code == 503


def test_whoever_waits_for_news_gets_it_at_once(api: Api):
    async def story() -> list[dict[str, object]]:
        after = api.store.last_sequence
        query = {"after": after, "wait_seconds": 20}
        waiting = asyncio.create_task(api.request("GET", "/v1/events", params=query))
        while not api.driver._news._waiters:
            await asyncio.sleep(0)
        await api.request("POST", "/v1/workloads", content=json.dumps(manifest("a")))
        events: list[dict[str, object]] = (await asyncio.wait_for(waiting, 10)).json()
        return events

    events = api.run(story())
    assert (events[0]["kind"], events[0]["name"]) == ("WorkloadSubmitted", "a")


def test_a_wait_that_its_profile_takes_is_warned_of(tmp_path: Path):
    policy = make_policy("paragon", admission="arq", estimation=LABELLED)
    api = Api(tmp_path, MemoryCluster(profiles=True), policy)
    try:
        short = manifest(
            "short",
            target={"rate": "5/s"},
            waiting={"within": "2s"},
            measure={"progress": {"regex": "(.)"}},
        )
        short["metadata"]["labels"] = {"profile": "yes"}
        answer = api.submit(short)
        assert answer.status_code == 201, answer.text
        (warning,) = answer.json()[0]["warnings"]
        assert warning.startswith("its manifest lets it wait for 2s, and its profile takes 9s: ")
        explained = api.get("/v1/workloads/short/explain")
        assert warning in [decision["message"] for decision in explained["decisions"]]
        (told,) = [line for line in explanation_text(explained).splitlines() if warning[4:] in line]
        assert explained["workload"]["phase"] in ("admitted", "profiling"), told
        long = {**short, "metadata": {**short["metadata"], "name": "long"}}
        long["spec"] = {**short["spec"], "waiting": {"within": "5m"}}
        assert [each["warnings"] for each in api.submit(long).json()] == [[]]
    finally:
        api.close()
