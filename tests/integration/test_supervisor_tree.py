"""Nothing of a tree is left, whatever it does to stay."""

import os
import select
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.supervised import DEADLINE_SECONDS, Run, marked_pids, until
from wharfinger.host.processes import kill_orphans
from wharfinger.host.supervisor import request_suspend

# Two forks and a new session: to init, all that is left of the tie is the subreaper.
DAEMONS = "for i in 1 2 3; do (setsid sh -c 'trap \"\" TERM HUP; {body}' &); done; "
# Every life is shorter than a look through /proc: forks, and the parent exits.
HOPPERS = """
import os, sys
for _ in range(3):
    if os.fork() == 0: break
else:
    sys.stdin = open(sys.argv[1]); sys.stdin.readline(); os._exit(4)
while True:
    if os.fork(): os._exit(0)
"""


@dataclass(frozen=True)
class Means:
    """One way to kill: what the launch spec says of it, and its cgroup's directory."""

    fields: dict[str, object]
    directory: Path | None

    def is_empty(self) -> bool:
        return self.directory is None or not (self.directory / "cgroup.procs").read_text()


def _mounted(kind: str, option: str) -> Path | None:
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, where, filesystem, options, *_ = line.split()
        if filesystem == kind and option in options.split(","):
            return Path(where)
    return None


def _make_cgroup(kind: str, option: str) -> Path:
    mount = _mounted(kind, option)
    if os.geteuid() != 0:
        pytest.skip("only root can make cgroups here")
    if mount is None:
        pytest.skip(f"no {kind} with {option} is mounted")
    directory = mount / f"wharfinger-test-{os.getpid()}"
    try:
        directory.mkdir(exist_ok=True)
    except OSError as error:
        pytest.skip(f"{mount}: {error.strerror}")
    return directory


@pytest.fixture(
    params=[
        "walk",
        pytest.param("cgroup.kill", marks=pytest.mark.root),
        pytest.param("freezer", marks=pytest.mark.root),
    ]
)
def means(request: pytest.FixtureRequest, run: Run) -> Iterator[Means]:
    if request.param == "walk":
        yield Means({}, None)
        return
    is_freezer = request.param == "freezer"
    directory = _make_cgroup(*(("cgroup", "freezer") if is_freezer else ("cgroup2", "rw")))
    fields: dict[str, object] = {"cgroup_procs": (directory / "cgroup.procs",)}
    if is_freezer:
        fields["freezer"] = directory
    elif (directory / "cgroup.kill").exists():
        fields["cgroup_kill"] = directory / "cgroup.kill"
    else:
        directory.rmdir()
        pytest.skip("cgroup.kill needs Linux 5.14")
    yield Means(fields, directory)
    run.clean_up()
    run.supervisors.clear()
    until(lambda: Means(fields, directory).is_empty())
    directory.rmdir()


def test_daemons_end_with_the_main_process(run: Run, means: Means, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    body = "while :; do sleep 9; done"
    run.sh(DAEMONS.format(body=body) + f"read line < {gate}; exit 7", **means.fields)
    run.started()
    until(lambda: len(marked_pids(run.key)) >= 7, "all daemons and their sleeps")
    gate.write_text("end\n")
    ended = run.end()
    assert (ended.exit_code, ended.unkilled_processes) == (7, 0)
    assert marked_pids(run.key) == []
    assert means.is_empty()


def test_forking_faster_than_one_can_look_does_not_help(
    run: Run, means: Means, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    run.launch(sys.executable, "-S", "-c", HOPPERS, str(gate), **means.fields)
    run.started()
    gate.write_text("end\n")
    ended = run.end()
    assert (ended.exit_code, ended.unkilled_processes) == (4, 0)
    kill_orphans(run.run_dir)
    assert marked_pids(run.key) == []


def test_ignoring_sigterm_helps_until_the_grace_is_over(run: Run, means: Means) -> None:
    body = "echo up; while :; do sleep 9; done"
    script = DAEMONS.format(body=body) + f"trap 'echo no' TERM; {body}"
    run.sh(script, stop_grace_seconds=60, **means.fields)
    run.started()
    until(lambda: run.output().count(b"up") == 4)
    run.stop(60)
    until(lambda: b"no" in run.output(), "the workload was asked")
    assert run.record().exit is None
    run.stop(0.05)
    ended = run.end()
    assert (ended.signal, ended.stop_requested) == (signal.SIGKILL, True)
    assert marked_pids(run.key) == []


def test_one_that_heeds_sigterm_says_how_it_ends(run: Run, means: Means) -> None:
    run.sh("trap 'exit 21' TERM; echo up; while :; do sleep 0.01; done", **means.fields)
    until(lambda: b"up" in run.output())
    run.stop(60)
    ended = run.end()
    assert (ended.exit_code, ended.stop_requested) == (21, True)


def test_the_specs_grace_holds_where_the_stop_says_none(run: Run) -> None:
    supervisor = run.sh("trap '' TERM; echo up; while :; do sleep 9; done", stop_grace_seconds=0.05)
    until(lambda: b"up" in run.output())
    os.kill(supervisor.pid, signal.SIGTERM)
    assert run.end().signal == signal.SIGKILL


def test_a_stop_right_after_the_launch_is_not_lost(run: Run) -> None:
    run.launch("sleep", "60")
    run.stop(60)
    ended = run.end()
    assert ended.stop_requested
    assert ended.signal == signal.SIGTERM or ended.failed_step == "killed"


def test_a_stopped_process_is_woken_to_end(run: Run) -> None:
    run.sh("trap 'exit 5' TERM; kill -STOP $$; while :; do sleep 9; done")
    main = run.started().started
    assert main is not None
    stat = Path(f"/proc/{main.process.pid}/stat")
    until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T", "it has stopped itself")
    run.stop(60)
    assert run.end().exit_code == 5


def test_a_suspended_cgroup_is_thawed_to_end(run: Run, means: Means) -> None:
    if means.directory is None:
        pytest.skip("without a cgroup there is nothing to suspend by")
    is_freezer = "freezer" in means.fields
    knob = means.directory / ("freezer.state" if is_freezer else "cgroup.freeze")
    run.sh("trap 'exit 5' TERM; echo up; while :; do sleep 0.01; done", **means.fields)
    until(lambda: b"up" in run.output())
    knob.write_text("FROZEN" if is_freezer else "1")
    run.stop(60)
    assert run.end().exit_code == 5


def test_a_cgroup_is_thawed_when_nobody_renews_its_suspension(run: Run, means: Means) -> None:
    if means.directory is None:
        pytest.skip("without a cgroup there is nothing to suspend by")
    is_freezer = "freezer" in means.fields
    knob = means.directory / ("freezer.state" if is_freezer else "cgroup.freeze")
    run.sh("echo up; while :; do sleep 0.01; done", **means.fields, suspension_lease_seconds=0.5)
    until(lambda: b"up" in run.output())
    # In this order: the lease may be over before we go on.
    knob.write_text("FROZEN" if is_freezer else "1")
    request_suspend(run.run_dir, run.supervisors[-1].pidfd, frozen=True)
    until(lambda: knob.read_text().strip() == ("THAWED" if is_freezer else "0"), "it is thawed")
    assert not (run.run_dir / "suspended").exists()


def test_the_supervisor_stays_out_of_the_cgroup(run: Run, means: Means) -> None:
    if means.directory is None:
        pytest.skip("without a cgroup there is nothing to stay out of")
    supervisor = run.launch("sleep", "60", **means.fields)
    main = run.started().started
    assert main is not None
    members = (means.directory / "cgroup.procs").read_text().split()
    assert members == [str(main.process.pid)]
    assert str(supervisor.pid) not in members


def test_a_second_supervisors_tree_is_left_alone(run: Run, means: Means) -> None:
    bystander = os.posix_spawn("/bin/sleep", ["sleep", "60"], {"PATH": "/bin"})
    pidfd = os.pidfd_open(bystander)
    try:
        run.sh(DAEMONS.format(body="sleep 60"), **means.fields)
        run.end()
        assert not select.select([pidfd], [], [], 0)[0]
    finally:
        os.kill(bystander, signal.SIGKILL)
        select.select([pidfd], [], [], DEADLINE_SECONDS)
        os.waitpid(bystander, 0)
        os.close(pidfd)
