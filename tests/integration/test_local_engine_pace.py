"""Fractions of a CPU, resize and suspension where there is no cgroup at all.

Only the order of effects is asserted, with wide margins.
"""

import os
import signal
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support import requires_root, wait_until
from tests.support.local import (
    MEBIBYTE,
    finished,
    is_gone,
    parent_of,
    run_as_nobody,
    session,
    start,
    started,
    take_cgroups_away,
)
from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.host.processes import measure_tree
from wharfinger.host.run_dir import read_run
from wharfinger.model.allocation import Allocation, Placement
from wharfinger.model.platform import ConditionKind
from wharfinger.model.workload import Measure
from wharfinger.testing.harness import Session

pytestmark = pytest.mark.alone

BUSY = "while :; do :; done"


@pytest.fixture(autouse=True)
def without_cgroups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    take_cgroups_away(tmp_path, monkeypatch)


def cpu_seconds(cluster: Session, key: str) -> float:
    used = cluster.engine.usage()[key].cpu_seconds
    assert used is not None
    return used


def wait_for_less(cluster: Session, *less: str, more: str) -> None:
    """Until one has done half a second of work from now on, and the others less than half of it.

    On a busy machine what is held to little may at first have more: a debt, which it pays off.
    """
    before = {key: cpu_seconds(cluster, key) for key in (*less, more)}

    def is_so() -> bool:
        taken = {key: cpu_seconds(cluster, key) - used for key, used in before.items()}
        return taken[more] > 0.5 and all(2 * taken[key] < taken[more] for key in less)

    wait_until(is_so, what=f"work of {more}, twice that of {less}")


def resize(cluster: Session, key: str, cpu_millicpus: int) -> None:
    place = (Placement(cluster.servers[0], Allocation(cpu_millicpus, 128 * MEBIBYTE)),)
    cluster.forget_reports()
    cluster.perform(act.ResizeAllocation(key, place))
    assert cluster.wait_for(ev.AllocationResized, key).placements == place


def test_a_server_without_a_quota_gives_fractions_and_says_how(tmp_path: Path) -> None:
    with session(tmp_path, servers="1") as cluster:
        assert cluster.engine.capabilities.fractional_cpu
        report = cluster.wait_for(ev.ServerReported)
        said = {condition.kind: condition.message for condition in report.server.conditions}
        assert "stopped and continued" in said[ConditionKind.NO_CPU_QUOTA]


def test_a_smaller_allocation_is_less_and_can_be_changed(tmp_path: Path) -> None:
    with session(tmp_path, servers="1") as cluster:
        started(cluster, start(cluster, "small", BUSY, cpu_millicpus=20))
        started(cluster, start(cluster, "large", BUSY, cpu_millicpus=600))
        wait_for_less(cluster, "small", more="large")
        resize(cluster, "large", 20)
        resize(cluster, "small", 600)
        wait_for_less(cluster, "large", more="small")


def test_best_effort_work_is_held_to_its_ceiling_until_that_is_lifted(tmp_path: Path) -> None:
    def under(key: str, ceiling: int | None) -> None:
        free = Allocation(0, 128 * MEBIBYTE, best_effort=True, ceiling_millicpus=ceiling)
        place = (Placement(cluster.servers[0], free),)
        cluster.forget_reports()
        cluster.perform(act.ResizeAllocation(key, place))
        assert cluster.wait_for(ev.AllocationResized, key).placements == place

    with session(tmp_path, servers="1") as cluster:
        for key in ("one", "other"):
            action = start(cluster, key, BUSY)
            free = Allocation(0, 128 * MEBIBYTE, best_effort=True)
            started(cluster, replace(action, placements=(Placement(cluster.servers[0], free),)))
        under("one", 20)
        wait_for_less(cluster, "one", more="other")
        under("one", None)
        under("other", 20)
        wait_for_less(cluster, "other", more="one")


def test_its_allocation_and_its_suspension_outlive_the_manager(tmp_path: Path) -> None:
    with session(tmp_path, servers="1") as cluster:
        for key in ("small", "large", "still"):
            started(cluster, start(cluster, key, BUSY, cpu_millicpus=300))
        resize(cluster, "small", 20)
        cluster.perform(act.SuspendWorkload("still"))
        cluster.reopen()
        wait_for_less(cluster, "small", "still", more="large")
        cluster.perform(act.ResumeWorkload("still"))
        used = cpu_seconds(cluster, "still")
        wait_until(lambda: cpu_seconds(cluster, "still") > used + 0.1, what="it goes on")


def test_what_is_suspended_ends_within_its_grace(tmp_path: Path) -> None:
    with session(tmp_path, servers="1") as cluster:
        script = f"trap 'exit 21' TERM; echo up; {BUSY}"
        started(cluster, start(cluster, "k", script, cpu_millicpus=100))
        wait_until(lambda: cluster.engine.read_log("k").data, what="its trap is set")
        cluster.perform(act.SuspendWorkload("k"), act.StopWorkload("k", 20.0))
        assert (finished(cluster, "k").exit_code, finished(cluster, "k").reason) == (21, "stopped")


def test_a_supervisor_that_dies_over_a_stopped_tree_leaves_nothing(tmp_path: Path) -> None:
    with session(tmp_path, servers="1") as cluster:
        script = f"setsid sleep 600 & echo $!; {BUSY}"
        pid = started(cluster, start(cluster, "k", script, cpu_millicpus=100))
        wait_until(lambda: cluster.engine.read_log("k").data, what="its daemon runs")
        daemon = int(cluster.engine.read_log("k").data)
        cluster.perform(act.SuspendWorkload("k"))
        wait_until(lambda: _state(pid) == _state(daemon) == "T", what="all of it is stopped")
        supervisor = parent_of(pid)
        cluster.engine.close()
        os.kill(supervisor, signal.SIGKILL)
        cluster.open()
        cluster.wait_for(ev.WorkloadVanished, "k")
        wait_until(lambda: is_gone(pid) and is_gone(daemon), what="both are gone")


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_what_drives_a_load_is_not_held_to_a_share(tmp_path: Path) -> None:
    with session(tmp_path, servers="1") as cluster:
        action = start(cluster, "k", BUSY, cpu_millicpus=20)
        started(cluster, action)
        load = ("/bin/sh", "-c", BUSY)
        workload = replace(action.workload, measure=Measure(load_command=load))
        cluster.perform(act.MeasureWorkload("k", workload))
        run_dir = tmp_path / "state" / ".loads" / "k.1"
        wait_until(lambda: run_dir.is_dir() and read_run(run_dir).started, what="its load runs")
        supervisor = read_run(run_dir).supervisor
        assert supervisor is not None
        root, before = supervisor.pid, cpu_seconds(cluster, "k")

        def does_more() -> bool:
            used, done = cpu_seconds(cluster, "k") - before, measure_tree(root).cpu_seconds
            return done > 0.5 and 2 * used < done

        wait_until(does_more, what="work of its load, twice its own")
        cluster.perform(act.StopWorkload("k", 0.0))
        finished(cluster, "k")
        cluster.wait_until(lambda: is_gone(root), "its load's end with it")
        cluster.perform(act.ForgetWorkload("k"))
        cluster.wait_until(lambda: not run_dir.exists(), "the end of what its load said")


@requires_root
def test_an_ordinary_user_has_fractions_too() -> None:
    script = textwrap.dedent(
        """
        import sys
        import time
        from pathlib import Path
        from wharfinger.engines.local import LocalEngine
        from wharfinger.core import actions as act, events as ev
        from wharfinger.model.allocation import Allocation, Placement
        from wharfinger.model.workload import Run, Workload, WorkloadType
        engine = LocalEngine(Path(sys.argv[1]) / "state", servers="1")
        engine.open()
        reports = []
        def wait_for(kind, key):
            while not any(isinstance(r, kind) and r.key == key for r in reports):
                reports.extend(engine.poll(60.0))
        server = next(r.server.name for r in engine.poll(60.0) if isinstance(r, ev.ServerReported))
        run = Run(("/bin/sh", "-c", "while :; do :; done"))
        for key, cpu in (("small", 20), ("large", 600)):
            workload = Workload(key, WorkloadType.SINGLE_NODE, run)
            place = (Placement(server, Allocation(cpu, 64 << 20)),)
            engine.perform(act.StartWorkload(key, workload, place))
            wait_for(ev.WorkloadStarted, key)
        def is_less():
            used = engine.usage()
            large = used["large"].cpu_seconds
            return large > 0.5 and 2 * used["small"].cpu_seconds < large
        deadline = time.monotonic() + 60.0
        while not (less := is_less()) and time.monotonic() < deadline:
            engine.poll(0.1)
        for key in ("small", "large"):
            engine.perform(act.StopWorkload(key, 0.0))
            wait_for(ev.WorkloadFinished, key)
        engine.close()
        print("less" if less else "not less")
        """
    )
    assert run_as_nobody(script) == "less\n"
