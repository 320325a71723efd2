"""Handing in, showing, changing and stopping workloads over the API."""

import asyncio
import json
from pathlib import Path

import httpx
import pytest

from tests.support.api import Api, manifest


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
    assert (first.status_code, first.json()) == (
        201,
        [{"name": "a", "created": True, "decisions": None}],
    )
    assert (again.status_code, again.json()[0]["created"]) == (200, False)
    assert len(api.cluster.running()) == 1


def test_what_is_acknowledged_is_in_the_log(api: Api):
    api.submit(manifest("a"))
    kinds = [entry.kind for entry in api.store.read() if b'"a"' in entry.payload]
    assert "WorkloadSubmitted" in kinds


def test_another_workload_of_the_same_name_is_a_conflict(api: Api):
    api.submit(manifest("a"))
    response = api.submit(manifest("a", "other"))
    assert response.status_code == 409
    assert "use update" in str(error(response)["message"])


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
    assert "no server has 2000m CPU" in waiting["first_message"]
    (now,) = waiting["now"]
    assert (now["accepted"], now["reason"]) == (False, "no-room")
    assert "1000m CPU" in now["would_change"]
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
        ({"metadata": {"name": "b"}}, "of 'b'"),
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


def test_a_whole_manifest_replaces_the_old(api: Api):
    api.submit(manifest("a", priority=3))
    response = api.call("PUT", "/v1/workloads/a", content=json.dumps(manifest("a", priority=9)))
    assert response.json()["priority"] == 9
    other = api.call("PUT", "/v1/workloads/a", content=json.dumps(manifest("b")))
    assert other.status_code == 400
    assert api.call("PUT", "/v1/workloads/c", content=json.dumps(manifest("c"))).status_code == 404


def test_deleting_stops_what_lives_and_drops_what_has_ended(api: Api):
    api.submit(manifest("a"))
    assert api.call("DELETE", "/v1/workloads/a").json() == {"name": "a", "outcome": "stopping"}
    assert api.get("/v1/workloads/a")["phase"] == "revoked"
    assert api.cluster.running() == ()
    assert api.call("DELETE", "/v1/workloads/a").json()["outcome"] == "deleted"
    assert api.call("GET", "/v1/workloads/a").status_code == 404
    assert api.call("DELETE", "/v1/workloads/a").status_code == 404


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
