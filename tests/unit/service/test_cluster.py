"""What the API shows of the cluster and of the manager."""

import os
import re
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.api import Api, manifest
from tests.support.stories import overloaded
from wharfinger.model.platform import Condition, ConditionKind
from wharfinger.service.history import KINDS, event
from wharfinger.service.metrics import MAX_WORKLOADS, ManagerCollector, render
from wharfinger.service.models import ErrorAnswer
from wharfinger.store.base import LogEntry
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


def test_what_others_hold_and_labels_are_shown(api: Api):
    api.submit(manifest("w", cpu="1500m"))
    labelled = replace(make_server("a"), labels={"gpu": "a100"})
    api.cluster.change_servers(labelled)
    api.cluster.occupy("a", 1000, 2**20)
    api.call("GET", "/healthz")
    (server,) = api.get("/v1/servers")
    assert (server["cpus_allocated"], server["cpus_others"]) == (1.5, 1.0)
    assert (server["memory_allocated_bytes"], server["memory_others_bytes"]) == (64 * 2**20, 2**20)
    assert server["labels"] == {"gpu": "a100"}
    reports = [event for event in api.get("/v1/events") if event["kind"] == "ServersReported"]
    assert [event["message"] for event in reports] == ["a", "a"]
    text = api.call("GET", "/metrics").text
    assert 'wharfinger_server_cpu_others_cpus{server="a"} 1.0' in text
    assert 'wharfinger_server_memory_others_bytes{server="a"} 1.048576e+06' in text


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
        "servers": None,
        "free_servers": None,
        "expected_wait_seconds": None,
        "expected_wait_low_seconds": None,
        "expected_wait_high_seconds": None,
        "over_slack_probability": None,
        "load_factor": None,
        "load_parts": {},
        "warning": None,
        "quality_low": None,
        "quality_high": None,
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


def test_events_of_some_kinds_are_paged_through(api: Api):
    for number in range(5):
        api.submit(manifest(f"w{number}", "true"))
    wanted = [e for e in api.get("/v1/events") if e["kind"] == "WorkloadFinished"]
    after, paged = 0, []
    while len(paged) < len(wanted):
        query = {"after": after, "limit": 2, "kind": "WorkloadFinished"}
        response = api.call("GET", "/v1/events", params=query)
        paged += response.json()
        after = int(response.headers["wharfinger-next-after"])
    assert paged == wanted
    rest = api.call("GET", "/v1/events", params={"after": after, "kind": "WorkloadFinished"})
    assert rest.json() == []
    assert int(rest.headers["wharfinger-next-after"]) == api.store.last_sequence


def test_a_kind_that_there_is_not_is_answered_with_the_list(api: Api):
    response = api.call("GET", "/v1/events", params={"after": 1, "kind": "Nothing"})
    assert response.status_code == 400
    assert "'WorkloadSubmitted'" in response.json()["error"]["message"]


def test_a_cordoned_server_takes_no_new_work(api: Api):
    wanted = {"drain": False, "reason": "new disk"}
    server = api.call("POST", "/v1/servers/a/cordon", json=wanted).json()
    keys = ("accepting", "cordoned", "draining", "cordon_reason")
    assert [server[key] for key in keys] == [False, True, False, "new disk"]
    api.submit(manifest("w"))
    assert api.get("/v1/workloads/w")["phase"] == "queued"
    (note,) = api.get("/v1/workloads/w/explain")["notes"]
    assert note.startswith("server a is cordoned: it takes no new work, since 20")
    assert note.endswith("(new disk)")
    server = api.call("POST", "/v1/servers/a/uncordon").json()
    assert [server[key] for key in keys] == [True, False, False, ""]
    assert api.get("/v1/workloads/w")["phase"] == "running"


def test_a_server_can_be_drained_without_a_body_it_is_cordoned(api: Api):
    assert api.call("POST", "/v1/servers/a/cordon").json()["draining"] is False
    assert api.call("POST", "/v1/servers/a/cordon", json={"drain": True}).json()["draining"] is True
    wrong = api.call("POST", "/v1/servers/a/cordon", json={"dry_run": True})
    assert wrong.status_code == 400
    assert "dry_run" in wrong.json()["error"]["message"]


def test_a_drained_server_says_why_each_resident_is_still_there(api: Api):
    restartable = manifest("moves")
    restartable["spec"]["run"]["restartable"] = True
    api.submit(restartable, manifest("stays"), manifest("stands"))
    assert api.get("/v1/servers/a")["staying"] == []
    api.call("POST", "/v1/workloads/stands/suspend")
    api.call("POST", "/v1/servers/a/cordon", json={"drain": True})
    staying = {one["name"]: one for one in api.get("/v1/servers/a")["staying"]}
    assert staying["moves"]["message"] == "no other server has room for it"
    assert staying["stays"]["message"].startswith("it is not restartable")
    assert staying["stands"]["message"].startswith("suspended by its user")
    leaves = [staying[name]["leaves"] for name in ("moves", "stays", "stands")]
    assert leaves == [True, True, False]


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


def test_metrics_tell_what_is_expected_of_a_queue_and_what_overloads_it() -> None:
    story = overloaded()
    told = ManagerCollector(story.manager, {}, 0, 0, 0.0, story.now)
    families = text_string_to_metric_families(render(told).decode())
    values = {
        (sample.name.removeprefix("wharfinger_queue_"), *sample.labels.values()): sample.value
        for family in families
        for sample in family.samples
    }
    (every,) = [queue for queue in story.queues() if queue["name"] == "any"]
    assert values["load_factor", "any"] == every["load_factor"] > 1.5
    # All of that was submitted to one class, which diverts most.
    assert values["load_part", "any", "class-2"] == every["load_parts"]["class-2"] > 1.5
    assert values["load_part", "any", "any"] == 0
    assert "100% of that work was submitted to class-2" in every["warning"]
    assert values["over_slack_probability", "class-2"] > 0.9
    assert values["servers", "class-3"] == 1


SMALL = {"cpu": "1m", "memory": "1Mi"}


def test_each_live_workload_has_metrics_up_to_a_bound(api: Api):
    api.submit(*(manifest(f"w{number}", resources=SMALL) for number in range(MAX_WORKLOADS + 3)))
    api.submit(manifest("gone", "true"))
    families = text_string_to_metric_families(api.call("GET", "/metrics").text)
    samples = [sample for family in families for sample in family.samples]
    cpus = {s.labels["workload"]: s.value for s in samples if s.name.endswith("cpu_allocated_cpus")
            and "workload" in s.labels}  # fmt: skip
    assert len(cpus) == MAX_WORKLOADS
    assert cpus[f"w{MAX_WORKLOADS + 2}"] == 0.001
    assert not cpus.keys() & {"w0", "w1", "w2", "gone"}
    values = {s.name: s.value for s in samples if not s.labels}
    assert values["wharfinger_workloads_without_metrics"] == 3
    assert values["wharfinger_runs_total"] == MAX_WORKLOADS + 4


def restarts(api: Api, workload: str = "") -> float:
    families = text_string_to_metric_families(api.call("GET", "/metrics").text)
    name = "wharfinger_workload_restarts" if workload else "wharfinger_restarts"
    (family,) = [one for one in families if one.name == name]
    wanted = {"workload": workload} if workload else {}
    return next(sample.value for sample in family.samples if sample.labels == wanted)


def test_restarts_are_counted_also_of_what_is_forgotten_and_by_the_next_manager(tmp_path: Path):
    with closing(Api(tmp_path)) as api:
        api.cluster.put_server(make_server("a"))
        api.submit(manifest("a"), manifest("b"))
        api.call("POST", "/v1/workloads/a/restart")
        api.call("POST", "/v1/workloads/b/restart")
        api.call("DELETE", "/v1/workloads/a")
        assert restarts(api) == 2, "nobody has asked before"
        api.call("POST", "/v1/workloads/b/stop")
        api.call("POST", "/v1/workloads/b/restart")
        assert api.get("/v1/workloads/b")["run"] == 2
        assert restarts(api, "b") == 1, "a new run does not set it back"
    with closing(Api(tmp_path)) as api:
        assert restarts(api) >= 2


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
        ("GET", "/v1/servers?name=a", 400, "invalid-input"),
        ("GET", "/v1/workloads?phase=dreaming", 400, "invalid-input"),
        ("POST", "/v1/servers/none/cordon", 404, "not-found"),
        ("POST", "/v1/executions/none/input", 404, "not-found"),
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
    schemas = document["components"]["schemas"]
    assert schemas["Manifest"]["properties"]["spec"]["required"]
    for call in ("post", "put"):
        body = document["paths"]["/v1/workloads"][call]["requestBody"]["content"]
        assert set(body) == {"application/json", "application/yaml"}
        assert all(each["schema"]["$ref"].endswith("/Manifest") for each in body.values())
    assert "running" in schemas["Phase"]["enum"]
    (kind,) = (
        parameter
        for parameter in document["paths"]["/v1/events"]["get"]["parameters"]
        if parameter["name"] == "kind"
    )
    assert kind["schema"]["items"]["enum"] == list(KINDS)


def test_the_reference_page_loads_nothing_from_a_network(api: Api):
    page = api.call("GET", "/docs")
    assert page.headers["content-type"].startswith("text/html")
    assert "<code>POST /v1/workloads</code>" in page.text
    assert "working_directory" in page.text
    assert not re.search(r"<script|<link|src=|//", page.text)


def test_events_of_earlier_runs_are_about_their_workload(api: Api):
    api.submit(manifest("w", "exit", "0"))
    api.submit(manifest("w", "exit", "0"))
    api.submit(manifest("gone", "exit", "0"))
    api.call("DELETE", "/v1/workloads/gone")
    ends = [event for event in api.get("/v1/events") if event["kind"] == "WorkloadFinished"]
    assert [event["name"] for event in ends] == ["w", "w", "gone"]


@pytest.mark.parametrize(
    ("payload", "told"),
    [
        (b'{"key": "1-1-a", "ready": true, "reason": ""}', "ready"),
        (b'{"key": "1-1-a", "ready": false, "reason": "no answer"}', "not ready: no answer"),
    ],
)
def test_events_of_readiness_say_which(payload: bytes, told: str):
    shown = event(LogEntry(1, 1.0, "ReadinessChanged", payload), {"1": "w"})
    assert (shown.name, shown.message) == ("w", told)
