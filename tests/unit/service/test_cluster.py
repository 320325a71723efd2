"""What the API shows of the cluster and of the manager."""

import os
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.api import Api, manifest
from wharfinger.model.platform import Condition, ConditionKind
from wharfinger.service.models import ErrorAnswer
from wharfinger.testing.memory import make_server


def test_servers_show_what_is_given_away(api: Api):
    api.submit(manifest("w", cpu="1500m"))
    (server,) = api.get("/v1/servers")
    assert next(iter(server)) == "name"
    assert (server["name"], server["cpus"], server["cpus_allocated"]) == ("a", 4.0, 1.5)
    assert (server["memory_allocated_bytes"], server["workloads"]) == (64 * 2**20, 1)
    detail = api.get("/v1/servers/a")
    assert [w["name"] for w in detail["residents"]] == ["w"]
    assert api.call("GET", "/v1/servers/b").status_code == 404


def test_a_servers_conditions_are_told_with_their_mend(api: Api):
    whole = make_server("b")
    condition = Condition(ConditionKind.NO_CPU_QUOTA, "give it cgroups")
    api.cluster.put_server(
        type(whole)(
            whole.name,
            whole.platform,
            whole.cpu_millicpus,
            whole.memory_bytes,
            conditions=(condition,),
        )
    )
    api.call("GET", "/healthz")
    assert api.get("/v1/servers/b")["conditions"] == [
        {"name": "no-cpu-quota", "message": "give it cgroups"}
    ]


def test_platforms_and_queues_are_counted(api: Api):
    api.cluster.put_server(make_server("b"))
    api.submit(manifest("big", cpu="3"), manifest("big2", cpu="3"), manifest("w", cpu="3"))
    api.now += 5
    (platform,) = api.get("/v1/platforms")
    assert (platform["servers"], platform["cpus"]) == (2, 4.0)
    queue = api.get("/v1/queues")[0]
    assert queue == {
        "name": "guaranteed",
        "length": 1,
        "first": "w",
        "oldest_wait_seconds": 5.0,
    }


def test_events_can_be_paged_through(api: Api):
    api.submit(manifest("a", "true"))
    everything = api.get("/v1/events")
    sequences = [event["sequence"] for event in everything]
    assert sequences == list(range(1, len(sequences) + 1))
    paged: list[dict[str, object]] = []
    while page := api.get("/v1/events", after=len(paged), limit=3):
        paged += page
    assert paged == everything
    assert api.get("/v1/events", limit=2) == everything[-2:]


def test_events_of_some_kinds_are_found_behind_many_others(api: Api):
    for number in range(5):
        api.submit(manifest(f"w{number}", "true"))
    everything = api.get("/v1/events")
    submitted = [e for e in everything if e["kind"] == "WorkloadSubmitted"]
    assert api.get("/v1/events", kind="WorkloadSubmitted", limit=3) == submitted[-3:]
    rest = [e for e in everything if e["kind"] != "WorkloadSubmitted"]
    assert api.get("/v1/events", without="WorkloadSubmitted") == rest
    assert api.get("/v1/events", kind="HistoryLost") == []


def test_events_say_what_they_are_about(api: Api):
    api.submit(manifest("w", "exit", "3"))
    events = {event["kind"]: event for event in api.get("/v1/events")}
    assert events["ServerReported"]["name"] == "a"
    assert events["ManagerStarted"]["name"] == "manager"
    # The engine speaks of starts; an operator thinks of workloads.
    assert events["WorkloadStarted"]["name"] == "w"
    assert events["WorkloadFinished"]["data"]["exit_code"] == 3
    assert "least loaded" in events["WorkloadPlaced"]["message"]


def test_the_status_says_what_the_manager_is(api: Api):
    api.submit(manifest("a"), manifest("b", "true"))
    api.now += 7
    status = api.get("/v1/status")
    assert (status["engine"], status["policy"], status["admission"]) == (
        "memory",
        "least-loaded",
        "fifo",
    )
    assert (status["pid"], status["uptime_seconds"], status["synced"]) == (os.getpid(), 7.0, True)
    assert (status["phases"]["running"], status["phases"]["completed"]) == (1, 1)
    assert status["damage"] is None
    assert status["accepting"]


def test_damage_of_the_log_is_told_in_status_and_events(tmp_path: Path):
    api = Api(tmp_path)
    api.submit(manifest("a", "true"))
    api.close()
    log = tmp_path / "manager.db"
    content = bytearray(log.read_bytes())
    at = content.index(b"WorkloadFinished")
    content[at] ^= 1
    log.write_bytes(content)
    api = Api(tmp_path)
    try:
        damage = api.get("/v1/status")["damage"]
        assert damage["last_whole_sequence"] > 0
        told = [event for event in api.get("/v1/events") if event["kind"] == "HistoryLost"]
        assert [event["message"] for event in told] == [damage["message"]]
    finally:
        api.close()


def test_metrics_are_in_prometheus_form(api: Api):
    api.submit(manifest("a", cpu="1500m"), manifest("b", cpu="3"))
    response = api.call("GET", "/metrics")
    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
    families = list(text_string_to_metric_families(response.text))
    values = {
        (sample.name, *sample.labels.values()): sample.value
        for family in families
        for sample in family.samples
    }
    assert values["wharfinger_workloads", "running"] == 1
    assert values["wharfinger_queue_length", "guaranteed"] == 1
    assert values["wharfinger_server_cpu_allocated_cpus", "a"] == 1.5
    assert values["wharfinger_events_logged_total",] == api.store.last_sequence
    types = {family.name: family.type for family in families}
    assert (types["wharfinger_events_logged"], types["wharfinger_adjustments"]) == (
        "counter",
        "counter",
    )
    assert all(family.documentation for family in families)


def test_a_label_is_escaped(api: Api):
    api.cluster.put_server(make_server('a"\\\nb'))
    api.call("GET", "/healthz")
    text = api.call("GET", "/metrics").text
    names = {
        sample.labels["server"]
        for family in text_string_to_metric_families(text)
        if family.name == "wharfinger_server_workloads"
        for sample in family.samples
    }
    assert names == {"a", 'a"\\\nb'}


def test_the_manager_is_healthy_when_it_answers(api: Api):
    assert api.call("GET", "/healthz").text == "ok\n"


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/v1/nothing", 404, "not-found"),
        ("GET", "/v1/workloads/", 404, "not-found"),
        ("PUT", "/v1/servers", 405, "method-not-allowed"),
        ("GET", "/v1/events?after=-1", 400, "invalid-input"),
        ("GET", "/v1/events?after=1&wait_seconds=nan", 400, "invalid-input"),
        ("GET", "/v1/events?kind=Nothing", 400, "invalid-input"),
        ("GET", "/v1/events?kind=WorkloadStarted&after=1", 400, "invalid-input"),
        ("GET", "/v1/events?limit=many", 400, "invalid-input"),
        ("GET", "/v1/events?limit=9223372036854775808", 400, "invalid-input"),
        ("POST", "/v1/workloads?dry_run=perhaps", 400, "invalid-input"),
    ],
)
def test_a_wrong_call_is_answered_in_the_one_form(
    api: Api, method: str, path: str, status: int, code: str
):
    response = api.call(method, path)
    assert response.status_code == status
    detail = ErrorAnswer.model_validate(response.json()).error
    assert detail.code == code
    assert "\n" not in detail.message


def test_the_openapi_document_tells_everything(api: Api):
    document = api.get("/openapi.json")
    operations = [operation for path in document["paths"].values() for operation in path.values()]
    assert len(operations) >= 18
    assert all(operation.get("description") for operation in operations)
    assert all("422" not in operation["responses"] for operation in operations)
    assert len({operation["operationId"] for operation in operations}) == len(operations)
    for operation in operations:
        if operation["operationId"] not in ("get_health", "get_metrics"):
            assert "ErrorAnswer" in str(operation["responses"]["default"])
