"""What is shown of a workload's performance once it has ended."""

from dataclasses import replace
from typing import Any

from tests.support.cluster import Cluster, running, server, workload
from wharfinger.cli import targets
from wharfinger.core import events as ev
from wharfinger.model.performance import NoSignal, Quantity, Reading, Sample
from wharfinger.model.view import Capabilities
from wharfinger.model.workload import Target
from wharfinger.service import workloads

LINES = "progress lines"


def ended(target: Target, exit_code: int = 0, measured_at: float = 90.0) -> dict[str, Any]:
    """A workload that ran from 0 to 100 s and was measured at one time, an hour later."""
    made = Cluster()
    able = Capabilities(measures=True)
    made.tell(ev.ManagerStarted("n9", "0", "least-loaded", "fifo", "test", able))
    made.tell(ev.ServerReported(server("a")))
    made.sync()
    made.tell(ev.WorkloadSubmitted(replace(workload("w"), target=target)))
    running(made, "w")
    made.now = measured_at
    readings = {Quantity.RATE: Reading(5.0, LINES), Quantity.REMAINING: Reading(40.0, LINES)}
    made.tell(ev.ServerMeasured("a", (Sample(made.key("w"), readings),)))
    made.now = 100.0
    made.tell(ev.WorkloadFinished(made.key("w"), exit_code, None, "exited"))
    return workloads.workload(made.record("w"), made.now + 3600).as_json()


def test_a_deadline_is_held_against_the_end_and_nothing_remains():
    shown = ended(Target(completion_seconds=120.0))
    assert (shown["achieved"]["completion_seconds"], shown["met"]) == (100.0, True)
    assert [one["name"] for one in shown["measured"]] == ["rate_per_second"]
    assert targets.measured(shown["measured"]) == "rate_per_second 5 at the end by progress lines"
    assert ended(Target(completion_seconds=90.0))["met"] is False
    failed = ended(Target(completion_seconds=120.0), exit_code=1)
    assert failed["met"] is False
    assert failed["achieved"]["completion_seconds"] is None


def test_the_last_rate_before_the_end_is_what_was_achieved():
    shown = ended(Target(rate_per_second=4.0))
    assert (shown["achieved"]["rate_per_second"], shown["met"]) == (5.0, True)
    # What was measured long before the end says nothing of it.
    stale = ended(Target(rate_per_second=4.0), measured_at=10.0)
    assert (stale["achieved"], stale["met"]) == (None, None)


def test_a_cell_of_a_table_is_short_and_describe_says_all():
    why = NoSignal("the load generator ended with exit status 1: " + "x" * 120)
    values = [
        {
            "name": "throughput_per_second",
            "value": None,
            "source": why.reason,
            "trusted": False,
            "correlation": None,
            "final": False,
        }
    ]
    cell = targets.measured_by(values)
    assert len(cell) == targets.SOURCES_WIDTH
    assert cell.startswith("no signal: the load generator ended with exit")
    assert why.reason in targets.measured(values)
