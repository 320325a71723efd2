"""The JSON Schema and the loader accept and refuse the same."""

import copy
import json

import jsonschema
import pytest

from wharfinger.errors import InvalidManifest
from wharfinger.manifest import json_schema, load_manifests

VALID = {
    "apiVersion": "wharfinger.dev/v1alpha1",
    "kind": "Workload",
    "metadata": {"name": "cache", "labels": {"team": "web", "a/b.c": ""}},
    "spec": {
        "type": "latency-critical",
        "target": {"throughput": "40k/s", "latency": {"percentile": 99.9, "below": "1h30m"}},
        "tolerance": "5%",
        "onMiss": "reject",
        "adapt": "recommend",
        "priority": 10,
        "scale": {"maxServers": 8, "stateful": False, "gang": False},
        "resources": {"cpu": "250m", "memory": "4Gi"},
        "profile": {"mode": "copy", "seconds": 8},
        "run": {
            "command": ["redis-server", ""],
            "env": {"A": "b"},
            "workingDir": ".",
            "stopGrace": "0s",
            "stopSignal": "QUIT",
            "timeLimit": "1h",
            "user": "www-data",
            "restart": {"policy": "always", "limit": "unlimited", "backoff": "2s"},
            "ready": {"port": 7001, "every": "100ms", "timeout": "1s", "failures": 3},
            "alive": {"command": ["true"]},
        },
        "measure": {"progress": {"regex": "([0-9]+)"}, "load": {"command": ["x"]}},
        "expectedDuration": "10m",
        "waiting": {"within": "30s"},
        "ttlAfterFinished": "forever",
        "after": {"completed": ["a"], "ended": ["b"], "ready": ["c"]},
        "schedule": {"cron": "0 2 * * *", "timeZone": "Europe/Berlin", "missed": "skip"},
    },
}

MISSING = object()

ALLOWED = [
    ("spec.tolerance", 0.05),
    ("spec.tolerance", 0),
    ("spec.resources.cpu", 2),
    ("spec.resources.cpu", 0.5),
    ("spec.resources.memory", 1048576),
    ("spec.scale.maxServers", 8.0),
    ("spec.target.throughput", "1.2e9/s"),
    ("spec.target.throughput", "0.5/min"),
    ("spec.target.latency.below", "0h0m5s"),
    ("spec.target.latency", MISSING),
    ("spec.target.throughput", MISSING),
    ("spec.run.env", {}),
    ("spec.measure", {}),
    ("spec.measure", {"load": {"command": ["x"]}, "http": {"url": "http://a:65535"}}),
    ("spec.measure.http", {"url": "http://a", "kind": "histogram", "metric": "x"}),
    ("metadata", {"generateName": "cache-"}),
    ("spec.scale.stateful", True),
    ("spec.scale.gang", True),
    ("spec.scale.spread", "zone"),
    ("spec.cost", {"maxPerHour": 4.5}),
    ("spec.ttlAfterFinished", "1h"),
    ("spec.onMiss", "run"),
    ("spec.adapt", "off"),
    ("spec.run.restart", "on-failure"),
    ("spec.run.restart.limit", 0),
    ("spec.run.restart", {"policy": "never"}),
    ("spec.run.ready", {"line": "listening"}),
    ("spec.run.ready", {"http": "http://127.0.0.1:80/ready"}),
    ("spec.schedule", "*/5 9-17 * * mon-fri"),
    ("spec.schedule", {"cron": "0 0 L * 1#2"}),
    ("spec.array", "1-100%8"),
    ("spec.array", "1,3,7-9"),
    ("spec.after", {"ready": ["a-1"]}),
    ("spec", {"type": "batch", "run": {"command": ["a"]}}),
    ("spec", {"type": "batch", "target": {"completionTime": "1s"}, "run": {"command": ["a"]}}),
    ("spec", {"type": "best-effort", "run": {"command": ["a"]}, "profile": {"mode": "live"}}),
]

FORBIDDEN = [
    ("apiVersion", "v1"),
    ("kind", MISSING),
    ("extra", 1),
    ("metadata.name", "Cache"),
    ("metadata.name", "a" * 64),
    ("metadata.name", 5),
    ("metadata.name", MISSING),
    ("metadata.labels", {"a b": "x"}),
    ("metadata.labels", {"a": 5}),
    ("metadata.labels", {f"l{n}": "x" for n in range(65)}),
    ("spec.type", "Batch"),
    ("spec.target", MISSING),
    ("spec.target", {}),
    ("spec.target", None),
    ("spec.target.rate", "1/s"),
    ("spec.target.throughput", 40000),
    ("spec.target.throughput", "0/s"),
    ("spec.target.throughput", "0e5/s"),
    ("spec.target.throughput", "-1/s"),
    ("spec.target.throughput", "٣/s"),
    ("spec.target.latency.percentile", 100),
    ("spec.target.latency.percentile", "99"),
    ("spec.target.latency.below", MISSING),
    ("spec.target.latency.below", 2),
    ("spec.target.latency.below", "0s"),
    ("spec.target.latency.below", "30m1h"),
    ("spec.target.latency.below", ""),
    ("spec.tolerance", "5 %"),
    ("spec.tolerance", 1),
    ("spec.tolerance", True),
    ("spec.priority", 1.5),
    ("spec.priority", 10**9),
    ("spec.scale.maxServers", 0),
    ("spec.scale.max_servers", 1),
    ("spec.scale.stateful", "yes"),
    ("spec.resources.cpu", "0"),
    ("spec.resources.cpu", "1e3"),
    ("spec.resources.cpu", 0),
    ("spec.resources.memory", "4GB"),
    ("spec.resources.memory", 4),
    ("spec.cost", {"maxPerHour": 0}),
    ("metadata", {}),
    ("metadata", {"name": "a", "generateName": "b"}),
    ("metadata", {"generateName": "a" * 59}),
    ("metadata", {"generateName": "-a"}),
    ("spec.target.latency.percentile", 0.99),
    ("spec.ttlAfterFinished", "never"),
    ("spec.onMiss", "wait"),
    ("spec.adapt", "on"),
    ("spec.adapt", False),
    ("spec.onMiss", True),
    ("spec.ttlAfterFinished", "0s"),
    ("spec.expectedDuration", 600),
    ("spec.waiting", {"within": 30}),
    ("spec.waiting", {"for": "30s"}),
    ("spec.run.restart", "sometimes"),
    ("spec.run.restart", {"limit": 3}),
    ("spec.run.restart.limit", "none"),
    ("spec.run.restart.limit", -1),
    ("spec.run.restart.backoff", "0s"),
    ("spec.run.ready", {}),
    ("spec.run.ready", {"port": 80, "line": "x"}),
    ("spec.run.ready", {"port": 0}),
    ("spec.run.ready", {"port": 70000}),
    ("spec.run.ready", {"line": ""}),
    ("spec.run.ready.failures", 0),
    ("spec.run.alive", {"line": "x"}),
    ("spec.run.timeLimit", "0s"),
    ("spec.run.stopSignal", "SIGTERM"),
    ("spec.run.stopSignal", "STOP"),
    ("spec.run.user", ""),
    ("spec.run.user", "a b"),
    ("spec.after", {"completed": []}),
    ("spec.after", {"completed": ["a", "a"]}),
    ("spec.after", {"completed": "a"}),
    ("spec.after", {"completed": ["A"]}),
    ("spec.schedule", "0 2 * *"),
    ("spec.schedule", "0 0 2 * * *"),
    ("spec.schedule", "@daily"),
    ("spec.schedule.missed", "maybe"),
    ("spec.schedule.timeZone", "../etc"),
    ("spec.schedule", {"timeZone": "UTC"}),
    ("spec.array", "100"),
    ("spec.array", "1-100%0"),
    ("spec.array", "1-"),
    ("spec.array", {"name": "cache", "index": -1}),
    ("spec.array", {"index": 1}),
    ("spec.profile.mode", "clone"),
    ("spec.profile.seconds", "8s"),
    ("spec.run", MISSING),
    ("spec.run.command", []),
    ("spec.run.command", [""]),
    ("spec.run.command", "sh"),
    ("spec.run.command", ["sleep", 5]),
    ("spec.run.command", ["a\0"]),
    ("spec.run.env", {"1A": "x"}),
    ("spec.run.env", {"A": 1}),
    ("spec.run.workingDir", ""),
    ("spec.run.workingDir", "~/x"),
    ("spec.run.stopGrace", 10),
    ("spec.measure.progress.regex", "no group"),
    ("spec.measure.load", {}),
    ("spec.measure", {"load": {"command": ["x"]}}),
    ("spec.measure.http", {"url": "http://a:99999/"}),
    ("spec.measure.http", {"url": "http://a", "kind": "histogram"}),
    ("spec.measure.http", {"url": "http://a", "metric": "x", "percentile": 50}),
    ("spec.type", "batch"),
    ("spec", {"type": "best-effort", "target": {"rate": "1/s"}, "run": {"command": ["a"]}}),
    ("spec", {"type": "best-effort", "profile": {"mode": "copy"}, "run": {"command": ["a"]}}),
    ("spec", {"type": "single-node", "scale": {"maxServers": 2}, "run": {"command": ["a"]}}),
    ("spec", {"type": "batch", "target": {}, "run": {"command": ["a"]}}),
    (
        "spec",
        {
            "type": "batch",
            "target": {"rate": "1/s", "completionTime": "1s"},
            "run": {"command": ["a"]},
        },
    ),
    (
        "spec",
        {"type": "batch", "measure": {"load": {"command": ["x"]}}, "run": {"command": ["a"]}},
    ),
]


@pytest.fixture(scope="module")
def validator():
    schema = json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def changed(path, value):
    manifest = copy.deepcopy(VALID)
    *parents, last = path.split(".")
    place = manifest
    for name in parents:
        place = place[name]
    if value is MISSING:
        del place[last]
    else:
        place[last] = value
    return manifest


def loads(manifest):
    try:
        load_manifests(
            json.dumps(manifest, ensure_ascii=False).replace("\0", "\\u0000"), working_directory="/"
        )
    except InvalidManifest:
        return False
    return True


def test_the_whole_valid_manifest(validator):
    validator.validate(VALID)
    assert loads(VALID)


@pytest.mark.parametrize(("path", "value"), ALLOWED)
def test_both_accept(validator, path, value):
    manifest = changed(path, value)
    validator.validate(manifest)
    assert loads(manifest)


@pytest.mark.parametrize(("path", "value"), FORBIDDEN)
def test_both_refuse(validator, path, value):
    manifest = changed(path, value)
    assert not validator.is_valid(manifest)
    assert not loads(manifest)


def test_every_field_is_described_and_its_examples_and_default_are_valid():
    seen = []
    waiting = [json_schema()]
    while waiting:
        schema = waiting.pop()
        for name, part in schema["properties"].items():
            assert part["description"], name
            waiting += [each for each in part.get("anyOf", ()) if "properties" in each]
            if "properties" in part:
                assert part["additionalProperties"] is False
                waiting.append(part)
                continue
            seen.append(name)
            examples = [
                *part.get("examples", []),
                *([part["default"]] if "default" in part else []),
            ]
            for example in examples:
                jsonschema.validate(example, part, jsonschema.Draft202012Validator)
    assert len(seen) == 77


def test_it_can_be_printed_as_json():
    assert json.loads(json.dumps(json_schema(), allow_nan=False)) == json_schema()
