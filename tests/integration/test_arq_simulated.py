"""ARQ in simulations: no wait beyond the slack, nobody lost, and the same decisions again."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.support import first_and_long
from wharfinger.core import events as ev
from wharfinger.core.ahead import PASSED_SECONDS
from wharfinger.core.lifecycle import Phase
from wharfinger.core.pipeline import Core, Step
from wharfinger.core.state import WorkloadRecord
from wharfinger.model.decisions import Place, ReasonCode
from wharfinger.policies.admission.arq import ANY, LATE
from wharfinger.simulator import run
from wharfinger.simulator.results.recording import read_recording
from wharfinger.simulator.run import RunSpec, prepare, replay_recording

POLICY = "paragon[placement.sources=2]"
PUBLISHED = "higher=empty,platforms=any,late=first"
ADMISSIONS = (
    "arq",
    f"arq[{PUBLISHED}]",
    "arq[higher=empty,ranges=quantile,queues=3,order=shortest]",
    f"arq[{PUBLISHED},quality=caused,objective=max,ranges=quantile]",
)
WITHOUT_SLACK = {ANY, LATE}
"""Their queues: they may take any server."""
AT_ONCE = 1e-6
"""Seconds by which a review may be late."""


class Watching(Core):
    """A core that, after each step of a log, looks for who waits though it need not."""

    def handle(self, now: float, event: ev.Report | ev.ClientRequest) -> Step:
        step = super().handle(now, event)
        for record in self.state.workloads.values() if self.state.synced else ():
            if record.phase is Phase.QUEUED and record.queue in WITHOUT_SLACK:
                self._check_queued(now, record)
        self._check_first_unprofiled(now)
        return step

    def _check_first_unprofiled(self, now: float) -> None:
        """Of those that wait for their profiles the first has no room; it keeps its turn (0116).

        Two copies are not on one server at a time, which is over in seconds.
        """
        for *_, name in list(self._cluster.unprofiled)[:1] if self.state.synced else ():
            record = self.state.workloads[name]
            request, view = self._residents.request(record, now), self._residents.view()
            placed = self.policy.placement.place(request, view)
            if isinstance(placed, Place) and record.deferral is not ReasonCode.BEHIND_OTHERS:
                assert view.copies[view.row(placed.placements[0].server)], (now, name)

    def _check_queued(self, now: float, record: WorkloadRecord) -> None:
        """It may take any server: where one would take it, its room is kept for one before it."""
        request = self._residents.request(record, now)
        verdict = self.policy.placement.place(request, self._residents.view(record.workload))
        if isinstance(verdict, Place):
            assert record.deferral is ReasonCode.BEHIND_OTHERS, (now, record.name)
            queues = self.policy.admission.queues
            earlier = queues[: queues.index(record.queue) + 1]
            assert any(self._cluster.queues.heads.of(queue) is not None for queue in earlier)


def recorded(admission: str, file: Path) -> Any:
    """A cluster that is too small for what comes."""
    spec = RunSpec(
        "paragon-local-oversubscribed",
        POLICY,
        admission=admission,
        seed=2,
        workloads=60,
        record=file,
    )
    return prepare(spec).run()


@pytest.mark.parametrize("admission", first_and_long(ADMISSIONS))
def test_nobody_waits_in_a_class_beyond_its_slack_nor_is_passed_then(
    admission: str, tmp_path: Path
) -> None:
    outcome = recorded(admission, tmp_path / "run.jsonl")
    assert Counter(fate.end for fate in outcome.fates)["unfinished"] == 0
    ends: dict[str, float] = {}  # by workload in a class: the end of its slack
    waits: dict[str, str] = {}
    came: dict[str, float] = {}
    seen: Counter[str] = Counter()
    for entry in read_recording(tmp_path / "run.jsonl")[1]:
        for name, end in ends.items():
            assert entry.time <= end + AT_ONCE, f"{name} waits beyond its slack"
        match entry.event:
            case ev.WorkloadSubmitted(submitted):
                came[submitted.name] = entry.time
            case ev.WorkloadQueued(name, queue, decision) | ev.WorkloadDiverted(
                name, queue, decision
            ):
                assert waits.get(name) != queue
                waits[name] = queue
                ends.pop(name, None)
                if queue not in WITHOUT_SLACK:
                    assert decision is not None
                    ends[name] = entry.time + decision.numbers["slack_seconds"]
                seen[type(entry.event).__name__] += 1
            case ev.WorkloadDeferred(name, decision) if waits.get(name) in WITHOUT_SLACK:
                # It may take any server, so that it waits for room alone.
                assert decision.reason is not ReasonCode.WAITS_FOR_QUALITY
            case ev.WorkloadPlaced(name, _, _, decision):
                long = [n for n in waits if came[n] + PASSED_SECONDS <= entry.time]
                before = [n for n in long if waits[n] == ANY and came[n] < came[name]]
                # Those that may take any server are not starved by what delays them.
                assert not before or "does not delay" in decision.message, before
                waits.pop(name, None)
                ends.pop(name, None)
    assert seen["WorkloadQueued"] == 60
    assert not waits


@pytest.mark.parametrize("admission", first_and_long(ADMISSIONS))
def test_a_run_is_decided_again_and_nobody_waits_while_a_server_would_take_it(
    admission: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded(admission, tmp_path / "run.jsonl")
    monkeypatch.setattr(run, "Core", Watching)
    again = replay_recording(tmp_path / "run.jsonl")
    assert again.difference is None
    assert again.workloads == 60


@pytest.mark.long
def test_some_wait_for_servers_of_their_class_and_are_diverted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, admission = tmp_path / "run.jsonl", "arq[ranges=quantile]"
    scenario = "paragon-ec2-oversubscribed"
    spec = RunSpec(scenario, POLICY, admission=admission, seed=3, scale=0.012, record=log)
    outcome = prepare(spec).run()
    assert Counter(fate.end for fate in outcome.fates)["unfinished"] == 0
    seen: Counter[str] = Counter()
    for entry in read_recording(log)[1]:
        seen[type(entry.event).__name__] += 1
        if isinstance(entry.event, ev.WorkloadDeferred):
            seen[entry.event.decision.reason] += 1
    assert seen["WorkloadDiverted"] > 0
    assert seen[ReasonCode.WAITS_FOR_QUALITY] > 0
    assert seen["PolicyNoted"] > 0, "busy periods are fitted as it runs"
    monkeypatch.setattr(run, "Core", Watching)
    assert replay_recording(log).difference is None
