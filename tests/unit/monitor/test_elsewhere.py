"""What a manifest says of this host is asked of the one on which the program runs."""

import os
import socket
import time

import pytest

from wharfinger.model.workload import HttpMeasure, Measure, Probe, Run, Workload, WorkloadType
from wharfinger.monitor.elsewhere import address_from_here, seen_from_here, url_on
from wharfinger.monitor.probes import prober
from wharfinger.monitor.spec import WatchSpec


@pytest.mark.parametrize(
    ("url", "there"),
    [
        ("http://127.0.0.1:9100/metrics", "http://10.0.0.7:9100/metrics"),
        ("https://LOCALHOST/ready?x=1#y", "https://10.0.0.7/ready?x=1#y"),
        ("http://[::1]:80/", "http://10.0.0.7:80/"),
        ("http://u:p%40@localhost:8080/", "http://u:p%40@10.0.0.7:8080/"),
        ("http://127.0.0.2:9100/", "http://127.0.0.2:9100/"),
        ("http://localhost.example/", "http://localhost.example/"),
    ],
)
def test_only_this_hosts_loopback_is_another_host(url: str, there: str):
    assert url_on(url, "10.0.0.7") == there


def test_probes_endpoint_and_environment_are_of_the_node():
    here = Workload(
        "web",
        WorkloadType.LATENCY_CRITICAL,
        Run(
            ("serve",),
            env={"A": "1"},
            ready=Probe(http="http://127.0.0.1:8080/ready"),
            alive=Probe(port=8080),
        ),
        measure=Measure(http=HttpMeasure("http://localhost:8080/metrics")),
    )
    there = seen_from_here(here, "10.0.0.7")
    assert there.run.env == {"A": "1", "WHARFINGER_NODE": "10.0.0.7"}
    assert there.run.ready == Probe(http="http://10.0.0.7:8080/ready")
    assert there.run.alive == here.run.alive
    assert there.measure.http == HttpMeasure("http://10.0.0.7:8080/metrics")
    assert there.run.command == here.run.command


def test_what_neither_probes_nor_asks_gets_the_environment_only():
    here = Workload("batch", WorkloadType.SINGLE_NODE, Run(("work",)))
    there = seen_from_here(here, "n1")
    assert there.run.env == {"WHARFINGER_NODE": "n1"}
    assert (there.run.ready, there.run.alive, there.measure) == (None, None, here.measure)


def test_a_node_that_is_this_host_is_reached_by_its_loopback():
    own = os.uname().nodename
    for address in (own, own.partition(".")[0], "::1", "127.0.0.1"):
        assert address_from_here(address) == "127.0.0.1"
    assert address_from_here("node-that-is-not-here") == "node-that-is-not-here"


def test_a_port_is_probed_at_the_host_of_its_workload():
    # Held and not listened on here: else another program may be given it.
    with socket.socket() as held, socket.socket() as server:
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
        server.bind(("127.0.0.2", port))
        server.listen()
        outcomes = {
            host: _outcome(WatchSpec("k", "", host=host), port)
            for host in ("127.0.0.2", "127.0.0.1")
        }
    assert outcomes["127.0.0.2"] == ""
    assert outcomes["127.0.0.1"] == f"port {port}: connection refused"


def _outcome(spec: WatchSpec, port: int) -> str:
    attempts = prober(spec, Probe(port=port, timeout_seconds=60.0))
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if (outcome := attempts.look()) is not None:
            return outcome
    raise AssertionError("no outcome")
