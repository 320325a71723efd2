"""The API keeps to its OpenAPI document, whatever is sent to it: tried by schemathesis.

A manager in a process of its own, with workloads in every state that a memory engine knows.
"""

import json
import os
from collections.abc import Iterator
from contextlib import suppress

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis.specs.openapi.checks import positive_data_acceptance

from tests.support.api import manifest
from tests.support.served import Served
from wharfinger.cli.client import Client
from wharfinger.errors import Conflict

TOKEN = "0123456789abcdef"
HEADERS = {"Authorization": f"Bearer {TOKEN}"}
FEW = settings(
    max_examples=8,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
NAMES = ("web", "done", "failed", "waits", "idle")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    state = tmp_path_factory.mktemp("schema") / "state"
    environment = {**os.environ, "WHARFINGER_TOKEN": TOKEN}
    served = Served(state, "--listen", "127.0.0.1:0", environment=environment)
    submit(served)
    yield served
    status, errors = served.stop()
    assert status == 0, errors
    assert "Traceback" not in errors


def submit(served: Served) -> None:
    target = {"throughput": "100/s", "latency": {"percentile": 99, "below": "5ms"}}
    workloads = [
        manifest("web", type="latency-critical", target=target),
        manifest("done", "true"),
        manifest("failed", "exit", "3"),
        manifest("waits", cpu="4"),
        manifest("idle", type="best-effort", resources={"memory": "64Mi"}),
    ]
    client = Client(served.state)
    there_are = {one["name"]: one for one in client.get("workloads")}
    for name in there_are.keys() - set(NAMES):
        client.call("DELETE", "workloads", name)
    client.call("POST", "servers", "a", "uncordon")
    for workload in workloads:
        known = there_are.get(workload["metadata"]["name"])
        if known is None or known["ended_at"] is not None:
            with suppress(Conflict):
                client.call("POST", "workloads", body=json.dumps(workload).encode())


@pytest.fixture(scope="module")
def described(served: Served) -> schemathesis.BaseSchema:
    schema = schemathesis.openapi.from_url(
        f"http://127.0.0.1:{served.port}/openapi.json", headers=HEADERS
    )
    return schema.exclude(path="/v1/stop")


@pytest.mark.long
@pytest.mark.parametrize("mode", list(schemathesis.GenerationMode))
def test_every_call_is_answered_as_described(
    served: Served, described: schemathesis.BaseSchema, mode: schemathesis.GenerationMode
):
    failures = []
    for found in described.get_all_operations():
        submit(served)  # whatever was deleted before
        try:
            check(found.ok(), mode)
        except Unsatisfiable:
            # It takes nothing that could be wrong.
            assert mode is schemathesis.GenerationMode.NEGATIVE
        except BaseExceptionGroup as group:
            failures.append(group)
    assert not failures, "\n\n".join(str(each) for one in failures for each in one.exceptions)


def check(operation: schemathesis.schemas.APIOperation, mode: schemathesis.GenerationMode) -> None:
    has_body = bool(operation.definition.raw.get("requestBody", {}))

    @FEW
    @given(case=operation.as_strategy(generation_mode=mode))
    def holds(case: schemathesis.Case) -> None:
        if "name" in case.path_parameters:
            known = ("a",) if "servers" in case.path else NAMES
            chosen = len(str(case.path_parameters["name"]))
            if chosen % 2:
                name = case.path_parameters["name"] = known[chosen // 2 % len(known)]
                if isinstance(case.body, dict) and isinstance(case.body.get("metadata"), dict):
                    case.body["metadata"]["name"] = name
        query = case.query or {}
        if "wait_seconds" in query:
            query["wait_seconds"] = 0
        # What a JSON Schema can't say, the service refuses: a span that is finer than 1 ns, and
        # times of a load generator's output.
        is_refused = has_body or query.get("source") == "load"
        excluded = [positive_data_acceptance] if is_refused else []
        case.call_and_validate(headers=HEADERS, timeout=120, excluded_checks=excluded)

    holds()
