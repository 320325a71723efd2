"""A real manager process under load, on a full disk, on a damaged log, among hostile programs."""

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import wait_until
from tests.support.live import (
    ENDED,
    LiveManager,
    as_file,
    expect_no_processes_with,
    manifest,
)
from tests.support.local import without_loader
from wharfinger.engines.local import identity_of_directory
from wharfinger.host.cgroups import discover

CGROUPS = Path("/sys/fs/cgroup")


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[LiveManager]:
    manager = LiveManager(tmp_path / "state", "--servers", "1")
    yield manager
    if manager.process is not None:
        manager.run("delete", "--all")
        manager.wait_for_all()
        manager.stop()
    expect_no_processes_with(str(tmp_path))


def _groups(state: Path) -> list[Path]:
    """The manager's cgroups, in every hierarchy; other tests' managers have others."""
    name = f"wharfinger-{identity_of_directory(state / 'runs')}"
    bases = {name, f"{name}-best-effort"}
    return [Path(top, base) for top, folders, _ in os.walk(CGROUPS) for base in bases & {*folders}]


@pytest.mark.long
def test_two_hundred_short_workloads_leave_nothing(manager: LiveManager, tmp_path: Path) -> None:
    manager.start()
    script = f'echo "$WHARFINGER_WORKLOAD" >> {tmp_path}/ran; sleep 0.05; exit $(($1 % 7))'
    manager.submit(
        *(
            manifest(f"w{i}", "sh", "-c", script, "sh", str(i), resources={"cpu": "250m"})
            for i in range(200)
        )
    )
    found = manager.wait_for_all(600)
    assert {name: w["exit_code"] for name, w in found.items()} == {
        f"w{i}": i % 7 for i in range(200)
    }
    ran = (tmp_path / "ran").read_text().split()
    assert sorted(ran) == sorted(f"w{i}" for i in range(200))
    manager.run("delete", "--all")
    assert manager.workloads() == {}
    wait_until(lambda: not list((manager.state / "runs").iterdir()), what="no run is left")
    assert manager.stop() == 0
    expect_no_processes_with(str(tmp_path))
    assert _groups(manager.state) == []
    assert not (manager.state / "socket").exists()


@pytest.mark.long
def test_a_thousand_workloads_in_one_file_are_all_taken(manager: LiveManager) -> None:
    manager.start()
    large = {"cpu": "1000", "memory": "64Mi"}
    text = as_file(*(manifest(f"w{i}", "true", resources=large) for i in range(1000)))
    output = manager.run("submit", "-f", "-", text=text)
    assert output.count("created") == 1000
    manager.kill()
    manager.start()
    assert sorted(manager.workloads()) == sorted(f"w{i}" for i in range(1000))
    assert manager.run("submit", "-f", "-", text=text).count("unchanged") == 1000


def test_a_second_manager_is_refused_and_harms_nothing(manager: LiveManager) -> None:
    manager.start()
    second = manager.popen("up")
    output, errors = second.communicate(timeout=60)
    assert second.returncode == 1
    assert "already runs" in errors
    assert len(errors.splitlines()) == 1
    assert "ready" not in output
    assert manager.workloads() == {}


def test_a_damaged_log_is_told_and_the_manager_goes_on(manager: LiveManager) -> None:
    manager.start()
    manager.submit(manifest("kept", "true"))
    manager.wait_for_all()
    manager.kill()
    database = manager.state / "manager.db"
    wal = manager.state / "manager.db-wal"
    damaged = wal if wal.exists() and wal.stat().st_size > 8192 else database
    with damaged.open("r+b") as file:
        file.truncate(damaged.stat().st_size - 5000)
    manager.start()
    assert "lost: acknowledged events" in manager.errors()
    assert "lost" in manager.run("get", "status")
    assert list(manager.state.glob("manager.db*.damaged-*"))
    manager.submit(manifest("after", "true"))
    manager.wait_for(lambda found: found["after"]["phase"] == "completed")


@pytest.mark.long
@pytest.mark.root
def test_a_full_disk_refuses_new_work_and_loses_nothing(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = ["mount", "-t", "tmpfs", "-o", "size=100m,mode=0700", "wharfinger-test", str(disk)]
    subprocess.run(mounted, check=True)
    manager = LiveManager(disk / "state", "--servers", "1")
    gate = tmp_path / "gate"
    try:
        manager.start()
        script = f"until [ -e {gate} ]; do sleep 0.1; done; head -c 100000 /dev/zero; exit 5"
        manager.submit(manifest("runs", "sh", "-c", script))
        manager.wait_for(lambda found: found["runs"]["phase"] == "running")
        _fill(disk / "filler")
        refusal = manager.run("submit", "-f", "-", text=as_file(manifest("new", "true")), status=1)
        assert len(refusal.splitlines()) == 1
        assert "free" in refusal
        gate.touch()
        ended = manager.wait_for(lambda found: found["runs"]["phase"] in ENDED)
        assert ended["runs"]["exit_code"] == 5
        assert set(ended) == {"runs"}
        manager.kill()
        manager.start()
        assert manager.workloads()["runs"]["exit_code"] == 5
        (disk / "filler").unlink()
        manager.submit(manifest("new", "true"))
        manager.wait_for_all()
        assert manager.stop() == 0
    finally:
        manager.kill()
        subprocess.run(["umount", "-l", str(disk)], check=True)


def _fill(path: Path) -> None:
    with path.open("wb") as file:
        try:
            while True:
                file.write(bytes(1 << 20))
                file.flush()
        except OSError:
            pass


HOSTILE = {
    "gone-at-once": ["true"],
    "prints-binary": ["head", "-c", "100000", "/dev/urandom"],
    "prints-nothing": ["sleep", "0"],
    "floods": ["sh", "-c", "head -c 60000000 /dev/zero"],
    "daemonises": ["sh", "-c", "setsid sh -c 'sleep 1000' & setsid sleep 1000 & exit 0"],
    "closes-everything": ["sh", "-c", "exec <&- >&- 2>&-; sleep 0.1"],
    "kills-itself": ["sh", "-c", "kill -9 $$"],
    "many-arguments": ["true", *["x" * 500] * 1000],
}


def test_hostile_programs_end_with_their_reason_and_harm_nobody(
    manager: LiveManager, tmp_path: Path
) -> None:
    manager.start()
    neighbour = f"for i in 1 2 3 4 5; do echo $i; sleep 0.3; done; cd {tmp_path}; exit 4"
    manager.submit(
        manifest("neighbour", "sh", "-c", neighbour),
        *(manifest(name, *command) for name, command in HOSTILE.items()),
        manifest("no-loader", str(without_loader(tmp_path / "program"))),
    )
    found = manager.wait_for_all()
    outcome = {name: (w["phase"], w["exit_code"]) for name, w in found.items()}
    assert outcome.pop("neighbour") == ("failed", 4)
    assert outcome.pop("no-loader") == ("failed", None)
    assert str(tmp_path / "program") in found["no-loader"]["message"]
    assert outcome.pop("kills-itself") == ("failed", None)
    assert found["kills-itself"]["signal"] == 9
    assert set(outcome.values()) == {("completed", 0)}, outcome
    assert manager.run("logs", "neighbour").split() == ["1", "2", "3", "4", "5"]
    kept = sum(path.stat().st_size for path in (manager.state / "runs").glob("*/output.*"))
    assert kept < 20 << 20


@pytest.mark.parametrize("options", [(), pytest.param(("--dry-run",), marks=pytest.mark.long)])
@pytest.mark.parametrize(
    ("command", "directory", "words"),
    [
        ("/no/such/program", "/", "spec.run.command: there is no program '/no/such/program'"),
        ("/", "/", "spec.run.command: '/' is a directory"),
        ("true", "/no/such", "spec.run.workingDir: '/no/such' does not exist"),
    ],
)
def test_what_can_not_run_here_is_refused_by_submit(
    manager: LiveManager, command: str, directory: str, words: str, options: tuple[str, ...]
) -> None:
    manager.start()
    wrong = manifest("wrong", command)
    wrong["spec"]["run"]["workingDir"] = directory
    both = as_file(manifest("right", "true"), wrong)
    errors = manager.run("submit", *options, "-f", "-", text=both, status=2)
    assert f"workload 'wrong': {words}" in errors
    assert manager.workloads() == {}, "all or none"


@pytest.mark.long
def test_one_that_ignores_sigterm_goes_after_its_grace(manager: LiveManager) -> None:
    manager.start()
    script = "trap '' TERM; echo ready; while :; do sleep 0.1; done"
    manager.submit(manifest("stubborn", "sh", "-c", script))
    wait_until(lambda: "ready" in manager.run("logs", "stubborn"), what="the trap is set")
    manager.run("stop", "stubborn")
    found = manager.wait_for_all()
    assert (found["stubborn"]["phase"], found["stubborn"]["signal"]) == ("revoked", 9)


@pytest.mark.root
def test_one_that_takes_too_much_memory_is_stopped_and_its_neighbour_is_not(
    manager: LiveManager,
) -> None:
    control = discover(f"test-{os.getpid()}")
    able = control.has_memory
    control.close()
    if not able:
        pytest.skip("memory can't be limited here")
    manager.start()
    hog = "x = bytearray(200 << 20); print(len(x))"
    manager.submit(
        manifest("hog", "python3", "-c", hog, resources={"cpu": "200m", "memory": "48Mi"}),
        manifest("neighbour", "sleep", "1"),
    )
    found = manager.wait_for_all()
    assert (found["hog"]["phase"], found["hog"]["reason"]) == ("failed", "out-of-memory")
    assert found["neighbour"]["phase"] == "completed"


@pytest.mark.long
def test_a_link_in_place_of_output_leads_nowhere(manager: LiveManager, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    manager.start()
    script = (
        f"cd {manager.state}/runs/*/ && rm -f output.* && "
        f"for i in 0 1 2 3; do ln -s {victim} output.0000000000000000000$i; done; "
        "rm -f started exit; ln -s " + str(victim) + " exit; echo harm; exit 6"
    )
    manager.submit(manifest("attacker", "sh", "-c", script))
    manager.wait_for_all()
    assert victim.read_text() == "precious"
    assert "precious" not in manager.run("logs", "attacker")
    assert manager.workloads()["attacker"]["phase"] in ENDED


@pytest.mark.long
def test_an_idle_manager_rests(manager: LiveManager) -> None:
    """With workloads that do nothing it does next to nothing: it waits, it does not poll."""
    manager.start()
    manager.submit(*(manifest(f"w{i}", "sleep", "1000", type="best-effort") for i in range(10)))
    manager.wait_for(lambda found: all(w["phase"] == "running" for w in found.values()))
    assert manager.process is not None
    pid = manager.process.pid
    wait_until(lambda: _switches_within(pid, 2.0) < 100, what="it rests")


def _switches_within(pid: int, seconds: float) -> int:
    before = _context_switches(pid)
    time.sleep(seconds)
    return _context_switches(pid) - before


def _context_switches(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("voluntary"))
    return int(line.split()[1])


@pytest.mark.long
def test_env_is_not_told(manager: LiveManager, tmp_path: Path) -> None:
    manager.start()
    secret = "s3cret-value"
    run = {
        "command": ["sh", "-c", 'test "$TOKEN" = s3"cret"-value'],
        "env": {"TOKEN": secret},
        "workingDir": str(tmp_path),
    }
    manager.submit(manifest("w", run=run))
    assert manager.wait_for_all()["w"]["exit_code"] == 0
    for arguments in (
        ("get", "workloads", "-o", "json"),
        ("get", "events", "-o", "json"),
        ("describe", "workload", "w", "-o", "json"),
        ("explain", "w"),
    ):
        told = manager.run(*arguments)
        assert secret not in told
    assert os.fspath(tmp_path) in manager.run("describe", "workload", "w", "-o", "json")
