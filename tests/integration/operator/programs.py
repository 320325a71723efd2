"""Programs of Debian's packages as an operator would describe them to a manager."""

import shutil
import socket
from pathlib import Path
from typing import Any

import pytest

CLIENT = Path(__file__).with_name("client.py")
REPORT = r"rps=(?P<throughput>[0-9.]+) p99=(?P<latency_ms>[0-9.]+)ms"
NGINX = """\
daemon off; worker_processes 1; pid {folder}/nginx.pid; error_log stderr;
events {{ worker_connections 256; }}
http {{
  access_log off; keepalive_requests 100000000;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  server {{ listen 127.0.0.1:{port}; location / {{ return 200 "hello\\n"; }} }}
}}
"""


def needs(package: str, *programs: str) -> None:
    """Skip the test, by the package's name, where one of its programs is not there."""
    for program in programs:
        if find(program) is None:
            pytest.skip(f"Debian's package {package} is not installed: no {program}")


def find(program: str) -> str | None:
    """Where a program is; Debian keeps PostgreSQL's outside everybody's PATH."""
    folders = sorted(map(str, Path("/usr/lib/postgresql").glob("*/bin")))
    return shutil.which(
        program, path=":".join(["/usr/bin", "/usr/sbin", "/usr/local/bin", *folders])
    )


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port


def document(name: str, **spec: Any) -> dict[str, Any]:
    """A manifest as JSON."""
    kinds = {"apiVersion": "wharfinger.dev/v1alpha1", "kind": "Workload"}
    return {**kinds, "metadata": {"name": name, "labels": {"trial": "yes"}}, "spec": spec}


def service(
    name: str,
    folder: Path,
    command: list[str],
    load: list[str],
    *,
    port: int,
    regex: str = REPORT,
    memory: str = "128Mi",
    target: dict[str, Any] | None = None,
    **run: Any,
) -> dict[str, Any]:
    """A service that is ready when it accepts connections, and restarted when it fails."""
    goal = {"throughput": "150/s", "latency": {"percentile": 99, "below": "500ms"}}
    return document(
        name,
        type="latency-critical",
        target=goal if target is None else target,
        tolerance="10%",
        resources={"memory": memory},
        profile={"seconds": 5},
        run={
            "command": command,
            "workingDir": str(folder),
            "ready": {"port": port},
            "restart": {"policy": "on-failure", "backoff": "500ms"},
            "stopGrace": "3s",
            **run,
        },
        measure={"load": {"command": load, "regex": regex}},
    )


def _client(folder: Path, protocol: str, port: int) -> list[str]:
    # Others may not be allowed to read it where it is.
    shutil.copy(CLIENT, folder)
    return ["/usr/bin/python3", str(folder / CLIENT.name), protocol, str(port), "200"]


def redis(folder: Path) -> dict[str, Any]:
    needs("redis-server", "redis-server", "redis-cli")
    port = free_port()
    command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", ""]
    return service("redis", folder, command, _client(folder, "redis", port), port=port)


def memcached(folder: Path) -> dict[str, Any]:
    needs("memcached", "memcached")
    port = free_port()
    command = [
        "memcached",
        "-l",
        "127.0.0.1",
        "-p",
        str(port),
        "-U",
        "0",
        "-t",
        "1",
        "-u",
        "nobody",
    ]
    return service("memcached", folder, command, _client(folder, "memcached", port), port=port)


def nginx(folder: Path) -> dict[str, Any]:
    needs("nginx-light", "nginx")
    port = free_port()
    (folder / "nginx.conf").write_text(NGINX.format(folder=folder, port=port))
    command = [find("nginx") or "", "-p", str(folder), "-e", "stderr", "-c", "nginx.conf"]
    return service(
        "nginx", folder, command, _client(folder, "http", port), port=port, stopSignal="QUIT"
    )


def postgresql(folder: Path, *, user: str | None) -> dict[str, Any]:
    """A cluster of databases that ``user`` owns; the load is pgbench's, without its tables."""
    needs("postgresql", "postgres", "initdb", "pgbench")
    port = free_port()
    (folder / "one.sql").write_text("SELECT 1;\n")
    command = [find("postgres") or "", "-D", "data", "-k", str(folder), "-p", str(port), "-F"]
    bench = " ".join(
        [
            *("stdbuf", "-oL", find("pgbench") or "", "-n", "-f", str(folder / "one.sql")),
            *("-R", "200", "-T", "100000", "-P", "1", "-h", str(folder), "-p", str(port)),
            *("-U", "trial", "postgres", "2>&1"),
        ]
    )
    return service(
        "postgresql",
        folder,
        command,
        ["sh", "-c", f"exec {bench}"],
        port=port,
        regex=r"progress: [0-9.]+ s, (?P<throughput>[0-9.]+) tps",
        memory="512Mi",
        target={"throughput": "150/s"},
        stopSignal="INT",
        **({} if user is None else {"user": user}),
    )


def xz(folder: Path) -> dict[str, Any]:
    """A hundred times the same piece; a line says how many are done."""
    needs("xz-utils", "xz")
    (folder / "piece").write_bytes(
        b"".join(b"%d squared is %d\n" % (n, n * n) for n in range(6_000))
    )
    each = "for n in $(seq 100); do xz -6 -c piece >piece.xz; echo done $n; done"
    return document(
        "xz",
        type="batch",
        target={"completionTime": "1m"},
        resources={"memory": "256Mi"},
        profile={"seconds": 4},
        run={"command": ["sh", "-c", each], "workingDir": str(folder)},
        measure={"progress": {"regex": "^done ([0-9]+)", "total": 100}},
    )


def ffmpeg(folder: Path) -> dict[str, Any]:
    """A test picture of 20 s, which goes nowhere."""
    needs("ffmpeg", "ffmpeg")
    command = ["ffmpeg", "-v", "error", "-nostdin", "-f", "lavfi", "-i"]
    command += ["testsrc=duration=20:size=320x240:rate=25", "-c:v", "mpeg4"]
    command += ["-progress", "pipe:1", "-stats_period", "0.2", "-f", "null", "-"]
    return document(
        "ffmpeg",
        type="batch",
        target={"completionTime": "2m"},
        resources={"memory": "512Mi"},
        profile={"seconds": 4},
        run={"command": command, "workingDir": str(folder)},
        measure={"progress": {"regex": "^frame=([0-9]+)", "total": 500}},
    )
