"""A workload that runs on another host, as it is measured and probed from this one: pure.

What its manifest says of ``127.0.0.1`` or ``localhost`` means the host on which it runs.
"""

import os
from dataclasses import replace
from urllib.parse import SplitResult, urlsplit

from wharfinger.model.workload import Probe, Workload

NODE_VARIABLE = "WHARFINGER_NODE"
"""In the environment of load generators, measuring commands and probes' commands: the address of
the host on which the program runs."""
LOOPBACK = "127.0.0.1"
_HERE = frozenset({LOOPBACK, "localhost", "::1"})


def address_from_here(address: str) -> str:
    """The address under which a node's programs are reached from this host.

    This host itself is ``127.0.0.1``: there, also what listens on that alone is reached.

    >>> address_from_here("10.0.0.7"), address_from_here("localhost")
    ('10.0.0.7', '127.0.0.1')
    """
    own = os.uname().nodename
    here = address in {*_HERE, own, own.partition(".")[0]}
    return LOOPBACK if here else address


def url_on(url: str, address: str) -> str:
    """A URL of this host's loopback, on another host; any other as it is.

    >>> url_on("http://me:x@localhost:8080/metrics?a=1", "10.0.0.7")
    'http://me:x@10.0.0.7:8080/metrics?a=1'
    >>> url_on("http://localhost/", "fe80::1"), url_on("http://other:80/", "10.0.0.7")
    ('http://[fe80::1]/', 'http://other:80/')
    """
    parts: SplitResult = urlsplit(url)
    if parts.hostname not in _HERE:
        return url
    user, at, _ = parts.netloc.rpartition("@")
    host = f"[{address}]" if ":" in address else address
    port = f":{parts.port}" if parts.port is not None else ""
    return parts._replace(netloc=f"{user}{at}{host}{port}").geturl()


def seen_from_here(workload: Workload, address: str) -> Workload:
    """The workload with the URLs and the environment that reach it at an address."""
    run, measure = workload.run, workload.measure
    http = measure.http
    return replace(
        workload,
        run=replace(
            run,
            env={**run.env, NODE_VARIABLE: address},
            ready=_probe_on(run.ready, address),
            alive=_probe_on(run.alive, address),
        ),
        measure=replace(measure, http=http and replace(http, url=url_on(http.url, address))),
    )


def _probe_on(probe: Probe | None, address: str) -> Probe | None:
    if probe is None or probe.http is None:
        return probe
    return replace(probe, http=url_on(probe.http, address))
