"""The checks of ``engine`` that are about servers which others use, too."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.model.platform import Server
from wharfinger.testing.harness import EngineTrial, expect

_CPU_MILLICPUS, _MEMORY_BYTES = 1000, 64 << 20
"""What others take, of the first server."""


def check_server(server: Server) -> None:
    """A server as it is reported: its size, and what others hold there.

    Raises:
        AssertionError: What does not add up.
    """
    expect(0 < server.cpu_millicpus <= server.platform.cpu_millicpus, f"CPU of {server}")
    expect(0 < server.memory_bytes <= server.platform.memory_bytes, f"memory of {server}")
    held = server.others_cpu_millicpus, server.others_memory_bytes
    expect(min(held) >= 0, f"others hold less than nothing of {server}")


def what_others_hold_is_reported(trial: EngineTrial) -> None:
    """As such: the server stays as large as it is, and what runs there goes on."""
    occupy = trial.harness.occupy
    if occupy is None:
        trial.skip("this harness has no occupy")
    trial.run_lasting("k")
    name = trial.servers[0]
    before = _newest(trial.reports, name)
    occupy(trial.engine, _CPU_MILLICPUS, _MEMORY_BYTES)
    trial.wait_until(lambda: _held(trial, name) > _held_by(before), "report of what others hold")
    during = _newest(trial.reports, name)
    check_server(during)
    size = before.cpu_millicpus, before.memory_bytes
    expect(size == (during.cpu_millicpus, during.memory_bytes), f"{before} became {during}")
    trial.expect_no_end("k")
    occupy(trial.engine, 0, 0)
    trial.wait_until(lambda: _held(trial, name) == _held_by(before), "report that they left")
    trial.expect_no_end("k")


def a_server_that_has_not_changed_is_not_reported_again(trial: EngineTrial) -> None:
    """After the sync, as long as nothing happens: a report costs the manager a commit."""
    trial.wait_for(ev.EngineSynced)
    before = len(trial.reports)
    trial.take_in(0.1)
    for report in trial.reports[before:]:
        for server in ev.servers_in(report):
            known = _newest(trial.reports[:before], server.name)
            expect(server != known, f"{server.name} was reported again as it was")


def on_several_servers_it_begins_and_ends_as_one(trial: EngineTrial) -> None:
    """One start and one end, with the status that it has everywhere, or as stopped."""
    if len(trial.servers) < 2 or trial.engine.capabilities.max_servers_per_workload < 2:
        trial.skip("no second server here, or no workload may be on two")
    for key, run in {
        "exits": trial.programs.exiting("exits", 3),
        "lasts": trial.programs.lasting("lasts"),
    }.items():
        starts = [trial.action(key, run, server) for server in trial.servers[:2]]
        both = tuple(placement for start in starts for placement in start.placements)
        trial.perform(replace(starts[0], placements=both))
    trial.expect_status("exits", 3)
    trial.wait_for(ev.WorkloadStarted, "lasts")
    trial.perform(act.SuspendWorkload("lasts"), act.ResumeWorkload("lasts"))
    trial.expect_no_end("lasts")
    trial.perform(act.StopWorkload("lasts", 5.0))
    end = trial.wait_for(ev.WorkloadFinished, "lasts")
    expect(end.reason == "stopped", f"a stop was asked for, reported was {end}")
    for key in ("exits", "lasts"):
        trial.expect_one_end(key)
        begun = sum(isinstance(report, ev.WorkloadStarted) for report in trial.about(key))
        expect(begun == 1, f"{key} began {begun} times")
    expect(not trial.engine.usage(), f"{set(trial.engine.usage())} still run")


def _newest(reports: Sequence[ev.Report], name: str) -> Server:
    found = [s for report in reports for s in ev.servers_in(report) if s.name == name]
    expect(bool(found), f"server {name!r} was not reported")
    return found[-1]


def _held(trial: EngineTrial, name: str) -> tuple[int, int]:
    trial.take_in()
    return _held_by(_newest(trial.reports, name))


def _held_by(server: Server) -> tuple[int, int]:
    return server.others_cpu_millicpus, server.others_memory_bytes


SERVER_CHECKS: tuple[Callable[[EngineTrial], None], ...] = (
    what_others_hold_is_reported,
    a_server_that_has_not_changed_is_not_reported_again,
    on_several_servers_it_begins_and_ends_as_one,
)
