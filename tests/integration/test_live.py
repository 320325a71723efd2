"""The whole loop on real programs: profiled, sized, placed, watched and put right.

Order of effect only, with wide margins: that CPU comes and goes, who gives way, who goes beside
whom. The manager is the real one; its patience alone is shortened.
"""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.live import LiveManager, manifest, processes_with
from tests.support.sandboxes import AS_NOBODY, NOBODY

pytestmark = pytest.mark.slow

IMPATIENT = {
    "MISSED_SECONDS": 2.0,
    "SPARE_SECONDS": 3.0,
    "SETTLING_SECONDS": 4.0,
    "GIVEN_WAY_SECONDS": 4.0,
    "UNMOVED_SECONDS": 4.0,
}
LINES = {"progress": {"regex": "done=([0-9]+)"}}
REPORT = r"throughput=(?P<throughput>[0-9.]+) latency_ms=(?P<latency_ms>[0-9.]+)"

HASHING = """
import hashlib
done = 0
while True:
    for _ in range(10):
        hashlib.pbkdf2_hmac("sha256", b"x", b"y", 2000)
        done += 1
    print(f"done={done}", flush=True)
"""
SYNCING = """
import os, sys
descriptor, done = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY), 0
while True:
    for _ in range(5):
        os.pwrite(descriptor, b"x" * 65536, done % 64 * 65536)
        os.fsync(descriptor)
        done += 1
    print(f"done={done}", flush=True)
"""

Start = Callable[..., LiveManager]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts managers; at the end nothing of theirs is left."""
    managers: list[LiveManager] = []

    def begin(*options: str, cgroups: bool = True, **others: Any) -> LiveManager:
        hurry: dict[str, Any] = {"adaptation": IMPATIENT, "report_seconds": 1.0}
        if not cgroups:
            (tmp_path / "nothing").touch()
            hurry["nothing"] = str(tmp_path / "nothing")
        manager = LiveManager(tmp_path / "state", *options, hurry=hurry, **others)
        managers.append(manager)
        manager.start()
        return manager

    yield begin
    for manager in managers:
        _clear(manager)
    assert processes_with(str(tmp_path)) == []


def _clear(manager: LiveManager) -> None:
    if manager.process is not None:
        manager.run("delete", "--all")
        manager.wait_for_all()
        manager.stop()


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def first_cpu() -> str:
    """One server with one CPU, whatever the machine has."""
    return f"one={min(os.sched_getaffinity(0))}"


def two_servers() -> str:
    """Two servers with one CPU each."""
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        pytest.skip("two servers with a CPU each need two CPUs")
    return f"one={cpus[0]},two={cpus[1]}"


def hashing(name: str, rate: str = "1/s", **spec: Any) -> dict[str, Any]:
    """CPU-bound; about a hundred steps a second on one CPU."""
    command = (sys.executable, "-c", HASHING)
    spec = {"target": {"rate": rate}, "measure": LINES, "profile": {"mode": "none"}, **spec}
    return manifest(name, *command, **spec)


def filler(name: str) -> dict[str, Any]:
    """Best-effort, and busy for ever."""
    return manifest(
        name, sys.executable, "-c", HASHING, type="best-effort", measure=LINES, resources={}
    )


def rate_of(workload: dict[str, Any]) -> float:
    achieved = workload["achieved"] or {}
    return achieved.get("rate_per_second") or 0.0


def runs(workload: dict[str, Any]) -> bool:
    return bool(workload["phase"] == "running" and rate_of(workload))


# --- a server under a stepped load ---------------------------------------------------------


def stepped(python: str = sys.executable, load_python: str = sys.executable) -> dict[str, Any]:
    """A document server: 40 requests a second, eight times as many for a while, and 40 again."""
    port = str(free_port())
    load = "--rate 40 --step 8:320 --step 30:40 --timeout 2 --window 2 --port"
    return manifest(
        "pages",
        python,
        "-m",
        "wharfinger.programs.http_service",
        "--port",
        port,
        type="latency-critical",
        target={"throughput": "25/s", "latency": {"percentile": 95, "below": "250ms"}},
        profile={"seconds": 3},
        measure={
            "load": {
                "command": [load_python, "-m", "wharfinger.programs.load", *load.split(), port],
                "regex": REPORT,
            }
        },
    )


def follows_its_load(manager: LiveManager, workload: dict[str, Any]) -> None:
    """It is given CPU while its load is high, and gives back when that has gone."""
    manager.submit(workload)
    found = manager.wait_for(
        lambda found: found["pages"]["phase"] == "running" and found["pages"]["achieved"], 60
    )
    small = found["pages"]["cpus"]
    grown = manager.wait_for(lambda found: found["pages"]["cpus"] > 1.2 * small, 45)["pages"]
    assert grown["starts"] == 1, "it was not started again for it"
    manager.wait_for(lambda found: found["pages"]["cpus"] < grown["cpus"], 60)
    explained = manager.run("explain", "pages")
    assert "target missed at" in explained
    assert "target kept at" in explained


def test_a_server_is_given_cpu_under_load_and_gives_it_back(start: Start) -> None:
    follows_its_load(start("--servers", first_cpu()), stepped())


def test_a_server_follows_its_load_without_cgroups(start: Start) -> None:
    follows_its_load(start("--servers", first_cpu(), cgroups=False), stepped())


@pytest.mark.root
def test_a_server_follows_its_load_for_an_ordinary_user() -> None:
    home = Path(tempfile.mkdtemp(prefix="wharfinger-live-", dir="/var/tmp"))
    try:
        home.chmod(0o755)
        (home / "theirs").mkdir()
        os.chown(home / "theirs", NOBODY, NOBODY)
        packages = str(Path(sys.modules["wharfinger"].__path__[0]).parent)
        env = {"PYTHONPATH": packages, "HOME": str(home / "theirs"), "PATH": "/usr/bin:/bin"}
        python = _python_of_others(env)
        hurry = {"adaptation": IMPATIENT, "report_seconds": 1.0}
        state, options = home / "theirs" / "state", ("--servers", first_cpu())
        manager = LiveManager(
            state, *options, hurry=hurry, prefix=AS_NOBODY, python=python, env=env
        )
        manager.start()
        try:
            workload = stepped(python, python)
            workload["spec"]["run"]["env"] = env
            follows_its_load(manager, workload)
        finally:
            _clear(manager)
        assert processes_with(str(home)) == []
    finally:
        shutil.rmtree(home)


def _python_of_others(env: dict[str, str]) -> str:
    """A Python that an ordinary user can run, with this package."""
    python = "/usr/bin/python3"
    command = [*AS_NOBODY, python, "-c", "import fastapi, wharfinger.runtime.assembly"]
    tried = subprocess.run(
        command, env={**os.environ, **env}, cwd="/", check=False, capture_output=True, text=True
    )
    if tried.returncode:
        pytest.skip(f"no Python with our packages for others: {tried.stderr.splitlines()[-1:]}")
    return python


# --- those who are in the way ----------------------------------------------------------------


def test_a_noisy_neighbour_gives_way_to_a_missed_target_and_goes_on_later(start: Start) -> None:
    manager = start("--servers", first_cpu())
    manager.submit(hashing("wanted"), filler("noise"))
    found = manager.wait_for(
        lambda found: runs(found["wanted"]) and found["noise"]["phase"] == "running"
    )

    # More than one CPU has: whatever can be done here is done.
    manager.run("update", "wanted", "--rate", "100k/s")
    gone = manager.wait_for(lambda found: found["noise"]["phase"] == "suspended", 60)
    assert gone["noise"]["reason"] == "suspended-for-target"
    assert gone["wanted"]["cpus"] > found["wanted"]["cpus"], "more CPU comes first"
    assert "wanted has missed its target" in manager.run("explain", "noise")
    assert "best-effort noise gives way" in manager.run("explain", "wanted")

    manager.run("update", "wanted", "--rate", "0.1/s")
    manager.wait_for(lambda found: found["noise"]["phase"] == "running", 60)
    assert "it goes on" in manager.run("explain", "noise")
    assert manager.workloads()["noise"]["starts"] == 1, "it was never started again"


def test_a_restartable_workload_is_moved_when_nothing_helps_where_it_is(start: Start) -> None:
    manager = start("--servers", two_servers())
    large = {"cpu": "700m", "memory": "64Mi"}
    # No target: it keeps what it reserves, and leaves one server with little.
    manager.submit(manifest("large", "sleep", "600", resources=large))
    found = manager.wait_for(lambda found: found["large"]["phase"] == "running")
    taken = found["large"]["servers"]
    blocker = manifest("blocker", "sleep", "600", resources={"cpu": "1", "memory": "64Mi"})
    manager.submit(blocker)
    manager.wait_for(lambda found: found["blocker"]["phase"] == "running")
    wanted = hashing("wanted", profile={"seconds": 3})
    wanted["spec"]["run"]["restartable"] = True
    manager.submit(wanted)
    found = manager.wait_for(lambda found: runs(found["wanted"]))
    assert found["wanted"]["servers"] == taken
    manager.run("delete", "blocker")
    manager.wait_for(lambda found: found["blocker"]["phase"] == "revoked")

    # About 0.6 CPU: twice what is left there, and well within an empty server.
    rate = 0.6 * rate_of(found["wanted"]) / found["wanted"]["cpus"]
    manager.run("update", "wanted", "--rate", f"{rate:.0f}/s")
    moved = manager.wait_for(
        lambda found: found["wanted"]["servers"] != taken and runs(found["wanted"]), 60
    )
    assert moved["wanted"]["starts"] == 2
    assert moved["large"]["servers"] == taken
    assert moved["large"]["starts"] == 1
    assert "nothing helps here" in manager.run("explain", "wanted", "-o", "wide")
