"""The local engine's pure parts: words for ends, choice of CPUs, records that were meddled with."""

import errno
import sys
from pathlib import Path

import pytest

from wharfinger.core import events as ev
from wharfinger.engines.local.engine import LocalEngine
from wharfinger.engines.supervised.machine import groups_of, pace_of
from wharfinger.engines.supervised.records import (
    EndRecord,
    StartRecord,
    create_run,
    list_keys,
    read_end,
    read_start,
    remove_run,
    save_end,
)
from wharfinger.errors import InvalidInput, OutOfSpace
from wharfinger.host.accounts import UserAccount
from wharfinger.host.cgroups import Group
from wharfinger.host.environment import environment_of
from wharfinger.host.keys import check_key
from wharfinger.host.reports import end_of
from wharfinger.host.run_dir import ExitRecord
from wharfinger.model.allocation import Allocation, Placement
from wharfinger.model.workload import Run


def exit_record(
    code: int | None = None,
    signal: int | None = None,
    step: str | None = None,
    number: int | None = None,
    *,
    stopped: bool = False,
) -> ExitRecord:
    return ExitRecord(code, signal, step, number, stopped, 1.5, 0.0, 0.0, 0, 0, 0)


@pytest.mark.parametrize(
    ("record", "kills", "reason"),
    [
        (exit_record(0), 0, "exited"),
        (exit_record(0), 1, "exited"),  # a child was killed, the program coped
        (exit_record(137), 1, "out-of-memory"),  # a shell passes its child's end on
        (exit_record(signal=9), 1, "out-of-memory"),
        (exit_record(signal=9), 0, "killed"),
        (exit_record(signal=9), None, "killed"),
        (exit_record(signal=15, stopped=True), 0, "stopped"),
        (exit_record(0, stopped=True), 0, "stopped"),
    ],
)
def test_an_end_has_one_reason(record: ExitRecord, kills: int | None, reason: str) -> None:
    end = end_of("k", record, out_of_memory_kills=kills)
    assert isinstance(end, ev.WorkloadFinished)
    assert (end.reason, end.exit_code, end.signal) == (reason, record.exit_code, record.signal)
    assert end.cpu_seconds == 1.5


@pytest.mark.parametrize(
    ("step", "number", "retryable"),
    [
        ("exec", errno.ENOENT, False),
        ("exec", errno.EACCES, False),
        ("exec", errno.ENOMEM, True),
        ("working_directory", errno.ENOENT, False),
        ("user", errno.EPERM, False),
        ("fork", errno.EAGAIN, True),
        ("cgroup", errno.ENODEV, True),
        ("affinity", errno.EINVAL, True),
        ("killed", 0, True),
    ],
)
def test_a_failed_start_says_whether_to_try_again(step: str, number: int, retryable: bool) -> None:
    end = end_of("k", exit_record(step=step, number=number), Run(("foo",), {}, "/"))
    assert isinstance(end, ev.StartFailed)
    assert end.retryable is retryable
    assert end.reason
    assert step == "killed" or errno.errorcode[number] in end.reason


def test_programs_do_not_find_the_managers_own_python(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    own, link = tmp_path / "venv", tmp_path / "link"
    (own / "bin").mkdir(parents=True)
    link.symlink_to(own)
    monkeypatch.setattr(sys, "prefix", str(own))
    monkeypatch.setenv("VIRTUAL_ENV", str(own))
    monkeypatch.setenv("PATH", f"{own}/bin:{link}/bin/:/usr/bin:/opt/bin")
    found = environment_of(None)
    assert found["PATH"] == "/usr/bin:/opt/bin"
    assert "VIRTUAL_ENV" not in found
    monkeypatch.setenv("PATH", f"{own}/bin")
    assert "/usr/bin" in environment_of(None)["PATH"]
    monkeypatch.setattr(
        sys, "base_prefix", str(own)
    )  # no virtual environment: all is the machine's
    assert environment_of(None)["PATH"] == f"{own}/bin"


def test_programs_of_another_user_find_that_users_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "/root/bin:/usr/bin")
    monkeypatch.setenv("TZ", "Europe/Berlin")
    found = environment_of(UserAccount("bob", 1001, 1001, (1001,), "/home/bob", ""))
    assert (found["HOME"], found["USER"], found["LOGNAME"]) == ("/home/bob", "bob", "bob")
    assert (found["SHELL"], found["TZ"]) == ("/bin/sh", "Europe/Berlin")
    assert "/root" not in found["PATH"]


def paced(
    cpu_millicpus: int, *, best_effort: bool = False, group: Group | None = None
) -> int | None:
    allocation = Allocation(cpu_millicpus, 1, best_effort)
    return pace_of(StartRecord(Placement("a", allocation), (2, 3)), group or Group({}))


def test_the_supervisor_paces_what_no_quota_holds_and_what_could_take_more() -> None:
    assert [paced(250), paced(1999), paced(2000), paced(9000)] == [250, 1999, None, None]
    assert paced(0, best_effort=True) is None
    assert pace_of(StartRecord(None), Group({})) is None


def test_the_supervisor_does_not_pace_what_a_quota_holds(tmp_path: Path) -> None:
    group = Group({"cpu": tmp_path, "unified": tmp_path})
    assert paced(250, group=group) == 250
    (tmp_path / "cpu.max").touch()
    assert paced(250, group=group) is None


def test_a_record_that_names_a_neighbours_groups_leads_nowhere() -> None:
    mine = {"cpu": "/sys/fs/cgroup/cpu/wharfinger-x/a/mine"}
    assert groups_of(mine, "mine").to_plain() == mine
    assert groups_of(mine, "other").to_plain() == {}
    assert groups_of({"cpu": "/etc"}, "etc").to_plain() == {}


def test_records_come_back_as_they_were(tmp_path: Path) -> None:
    there = Placement("a", Allocation(250, 1 << 20))
    start = StartRecord(there, (0, 1), {"cpu": "/x/é"}, latency_critical=True)
    run_dir = create_run(tmp_path, "k", start)
    assert read_start(run_dir) == start
    end = EndRecord(
        ev.WorkloadStarted("k", "pid 1"), ev.StartFailed("k", "no such program: 'é'", False)
    )
    save_end(run_dir, end)
    assert read_end(run_dir) == end
    with pytest.raises(OutOfSpace):
        create_run(tmp_path, "k", start)
    assert list_keys(tmp_path) == ["k"]
    remove_run(run_dir)
    assert list_keys(tmp_path) == []


def test_a_start_record_of_version_0_1_is_of_no_latency_critical_work(tmp_path: Path) -> None:
    run_dir = create_run(tmp_path, "k", StartRecord(None, (0, 1)))
    (run_dir / "start").write_text('{"placement": null, "cpus": [0, 1], "groups": {}}')
    assert read_start(run_dir) == StartRecord(None, (0, 1))


@pytest.mark.parametrize("text", ["", "{", "[]", '{"placement": 3}', "\xff", "[1, 2]", "null"])
def test_damaged_records_count_as_missing(tmp_path: Path, text: str) -> None:
    run_dir = create_run(tmp_path, "k", StartRecord(None))
    for name in ("start", "end"):
        (run_dir / name).write_text(text)
    assert read_start(run_dir) is None
    assert read_end(run_dir) is None


def test_half_made_run_directories_are_swept(tmp_path: Path) -> None:
    (tmp_path / ".new.k").mkdir()
    assert list_keys(tmp_path) == []
    assert not list(tmp_path.iterdir())


def test_a_run_that_a_crash_leaves_half_removed_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_dir = create_run(tmp_path, "k", StartRecord(None))
    with monkeypatch.context() as crash:
        crash.setattr("shutil.rmtree", lambda *_, **__: None)
        remove_run(run_dir)
    assert not run_dir.exists()
    assert list_keys(tmp_path) == []
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("key", ["", ".", "..", "a/b", ".hidden", "-x", "x" * 201, "a b", "é"])
def test_a_key_that_is_no_plain_name_is_refused(key: str) -> None:
    with pytest.raises(InvalidInput, match="key"):
        check_key(key)


def test_labels_are_of_all_servers_or_of_one_that_there_is(tmp_path):
    labels = (("", "site", "north"), ("server0", "disk", "ssd"))
    (server,) = LocalEngine(tmp_path, servers="1", labels=labels)._discover("1")
    assert server.server.labels == {"site": "north", "disk": "ssd"}
    wrong = LocalEngine(tmp_path, servers="1", labels=(("big", "disk", "ssd"),))
    with pytest.raises(InvalidInput, match="--label big:disk=ssd: no server 'big'; the servers"):
        wrong._discover("1")
