"""Hostile requests: whatever comes, the manager answers in its one form and goes on.

Each test prints how many requests it made and how they were answered: see ``pytest -rP``.
"""

import json
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.api import Api, manifest

ALLOWED_5XX = {503, 507}
ANY_METHOD = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
READS = (
    "/v1/workloads",
    "/v1/workloads/{}",
    "/v1/workloads/{}/explain",
    "/v1/workloads/{}/log",
    "/v1/workloads/{}/usage",
    "/v1/servers",
    "/v1/servers/{}",
    "/v1/platforms",
    "/v1/queues",
    "/v1/events",
    "/v1/usage",
    "/v1/status",
    "/healthz",
    "/metrics",
)
WRITES = (
    ("POST", "/v1/workloads"),
    ("PUT", "/v1/workloads/{}"),
    ("PATCH", "/v1/workloads/{}"),
    ("DELETE", "/v1/workloads/{}"),
)
calls = st.one_of(
    st.sampled_from([("GET", path) for path in READS]),
    st.sampled_from(WRITES),
    st.tuples(st.sampled_from(ANY_METHOD), st.sampled_from([*READS, "/{}"])),
)
QUERIES = (
    "after", "limit", "offset", "limit_bytes", "phase", "label", "name", "dry_run",
    "working_directory", "source",
)  # fmt: skip

names = st.one_of(
    st.sampled_from(["a", "b", "..", "%00", "a/b", "a" * 3000, "-", "né", "\x1b[2J"]),
    st.text(max_size=20),
)
values = st.one_of(
    names,
    st.integers().map(str),
    st.floats().map(str),
    st.sampled_from(["true", "live", "ended", "running", "team=web", "/", "/srv", "0", "-1"]),
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=12,
)
specs = st.fixed_dictionaries(
    {},
    optional={
        "priority": json_values,
        "tolerance": json_values,
        "target": json_values,
        "resources": st.dictionaries(st.sampled_from(["cpu", "memory"]), json_values),
        "run": json_values,
        "type": st.sampled_from(["batch", "best-effort", "no-such"]),
    },
)
bodies = st.one_of(
    st.just(b""),
    st.binary(max_size=200),
    json_values.map(lambda value: json.dumps(value).encode()),
    specs.map(lambda spec: json.dumps({**manifest("a"), "spec": spec}).encode()),
    specs.map(lambda spec: json.dumps({"spec": spec}).encode()),
    st.sampled_from(["a", "b", "c"]).map(lambda name: json.dumps(manifest(name)).encode()),
    st.just(b"[" * 5000),
    st.just(b'{"a":' * 5000),
)


@pytest.fixture(scope="module")
def api() -> Iterator[Api]:
    with tempfile.TemporaryDirectory() as directory:
        api = Api(Path(directory))
        yield api
        api.close()


@pytest.fixture
def counts(record_property) -> Iterator[Counter[int]]:
    counts: Counter[int] = Counter()
    yield counts
    record_property("requests", counts.total())
    answered = ", ".join(f"{count} with {status}" for status, count in sorted(counts.items()))
    print(f"{counts.total()} requests: {answered}")
    assert counts.total() > 0


def check(api: Api, response: httpx.Response, counts: Counter[int]) -> None:
    counts[response.status_code] += 1
    assert response.status_code < 500 or response.status_code in ALLOWED_5XX, response.text
    assert "Traceback" not in response.text
    if response.status_code >= 400 and response.request.method != "HEAD":
        detail = response.json()["error"]
        assert set(detail) <= {"code", "message", "retryable", "problems"}
        assert detail["code"]
    assert not api.stopped
    assert api.call("GET", "/healthz").status_code == 200


def test_any_request_is_answered(api: Api, counts: Counter[int]):
    @given(
        calls,
        names,
        st.dictionaries(st.sampled_from(QUERIES), values, max_size=3),
        bodies,
    )
    def requests(call: tuple[str, str], name: str, query: dict[str, str], body: bytes) -> None:
        method, path = call
        quoted = quote(name, safe="", errors="replace")
        parameters = {key: value.encode(errors="replace") for key, value in query.items()}
        response = api.call(method, path.format(quoted), params=parameters, content=body)
        check(api, response, counts)

    requests()


def test_any_body_handed_in_is_answered(api: Api, counts: Counter[int]):
    @given(bodies, st.booleans())
    def submissions(body: bytes, dry_run: bool) -> None:
        query = {"dry_run": str(dry_run).lower()}
        check(api, api.call("POST", "/v1/workloads", params=query, content=body), counts)

    submissions()


def test_any_patch_is_answered(api: Api, counts: Counter[int]):
    api.submit(manifest("a"))

    @given(bodies)
    def patches(body: bytes) -> None:
        check(api, api.call("PATCH", "/v1/workloads/a", content=body), counts)

    patches()


def test_the_history_can_still_be_replayed(api: Api):
    api.submit(manifest("last", "true"))
    replayed = api.runtime._rebuild()
    assert replayed.state == api.runtime.manager.state
