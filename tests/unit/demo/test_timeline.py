"""What is read from a manager, and how it is shown while it comes."""

import io
import sys

from tests.unit.demo.conftest import STATED, needs, row, timeline
from wharfinger.cli.demo_progress import DemoProgress
from wharfinger.demo.timeline import DemoSample, Timeline, busy_seconds, decision_of
from wharfinger.demo.verdict import ClientSecond, judge, read_clients
from wharfinger.demo.workloads import FILLERS, TARGETED


def event(kind, **data):
    decision = {
        "stage": "adaptation",
        "accepted": True,
        "reason": "ok",
        "message": "raised from 0.3 to 0.45 CPU",
    }
    return {
        "name": "web",
        "kind": kind,
        "logged_at": "1970-01-01T00:00:12.000Z",
        "data": {"decision": decision, **data},
    }


def test_a_changed_allocation_is_an_adjustment_and_a_new_classification_is_none():
    placements = [{"server": "server0", "allocation": {"cpu_millicpus": 450}}]
    planned = decision_of(event("AllocationPlanned", placements=placements), epoch=2.0)
    assert (planned["at_seconds"], planned["cpus"], planned["adjusts"]) == (10.0, 0.45, True)
    assert planned["predicted"] is None
    assert not decision_of(event("ClassificationPlanned"), epoch=2.0)["adjusts"]


class Answers:
    """A cluster with one workload."""

    cpu_numbers = (0,)

    def __init__(self):
        self.now = {}
        self.used = 0.0

    def workloads(self):
        return [{**row("web"), **self.now}]

    def usage(self):
        return {"web": self.used}

    def events_after(self, sequence):
        return []


def test_cpu_time_is_of_all_starts_and_what_waits_holds_nothing():
    seen, answers = Timeline("quasar", 0.0, 2.0, {"server0": "", "server1": ""}), Answers()
    for key, used in (("1", 3.0), ("1", 5.0), ("2", None), ("2", 1.0)):
        answers.now, answers.used = {"key": key}, used
        seen.sample(answers)
    assert [sample.cpu_seconds(["web"]) for sample in seen.samples] == [3.0, 5.0, 5.0, 6.0]
    answers.now = {"key": "2", "phase": "queued"}
    seen.sample(answers)
    last = seen.samples[-1].workloads["web"]
    assert (last["servers"], last["cpus"], last["cpu_seconds"]) == ([], 0.0, 6.0)


def test_cpu_time_that_is_told_seldom_has_accrued_evenly_since_it_came_onto_a_server():
    told = [("", 0.0), ("", 0.0), ("n1", 0.0), ("n1", 0.0), ("n1", 4.0), ("n1", 4.0), ("n1", 6.0)]
    rows = [{"web": {"servers": [s] if s else [], "cpu_seconds": cpu}} for s, cpu in told]
    samples = [DemoSample(float(at), None, row) for at, row in enumerate(rows)]
    timeline = Timeline("quasar", 0.0, 2.0, {}, samples)
    assert timeline.accrued_cpu("web") == [0.0, 0.0, 0.0, 2.0, 4.0, 5.0, 6.0]


def test_what_clients_saw_is_judged_second_by_second(tmp_path):
    log = tmp_path / "web.clients"
    log.write_text(
        "".join(
            f"second={second} throughput=30.0 latency_ms={10.0 if second < 16 else 900.0} p50=1\n"
            for second in range(1, 21)
        )
    )
    seen = read_clients(log)
    assert seen[0] == ClientSecond(1.0, 30.0, 0.01)
    result = judge(timeline("quasar", good=True), {"web": seen}, needs(), STATED, 20.0)
    web = next(workload for workload in result["workloads"] if workload["name"] == "web")
    # Of the seconds from 6 to 20 the last five were too slow.
    assert (web["held_share"], web["met"]) == (round(10 / 15, 4), False)
    assert read_clients(tmp_path / "nobody") == []


def test_a_service_without_clients_has_not_met_its_target():
    result = judge(timeline("quasar", good=True), {}, needs(), STATED, 20.0)
    web = next(workload for workload in result["workloads"] if workload["name"] == "web")
    assert (web["held_share"], web["performance"], web["met"]) == (None, None, False)


def test_progress_in_a_pipe_is_lines():
    stream = io.StringIO()
    with DemoProgress(stream) as progress:
        progress.tell("[3/5] run 1")
        progress.show(timeline("quasar", good=True))
    text = stream.getvalue()
    assert "[3/5] run 1" in text
    assert "web: raised from 0.3 to 0.45 CPU" in text
    assert "20 s  web on target" in text


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_in_a_terminal_shows_every_workload(monkeypatch):
    monkeypatch.setenv("COLUMNS", "140")
    stream = Terminal()
    with DemoProgress(stream) as progress:
        progress.tell("[3/5] run 1")
        progress.show(timeline("quasar", good=True))
    text = stream.getvalue()
    for name in (*TARGETED, *FILLERS):
        assert name in text
    assert "raised from 0.3 to 0.45 CPU" in text
    assert "0.20" in text


def test_without_rich_a_terminal_gets_lines_and_is_told_why(monkeypatch):
    for module in ("rich", "rich.console", "rich.live"):
        monkeypatch.setitem(sys.modules, module, None)
    stream = Terminal()
    with DemoProgress(stream) as progress:
        progress.tell("[3/5] run 1")
    assert "rich is not installed" in stream.getvalue()
    assert "[3/5] run 1" in stream.getvalue()


def test_busy_time_is_of_the_cpus_that_are_asked_for(tmp_path):
    stat = tmp_path / "stat"
    stat.write_text(
        "cpu  9 9 9 9 9 9 9 9\ncpu0 100 0 50 900 40 0 10 40 0 0\ncpu1 1 1 1 1 1 1 1 1\n"
    )
    assert busy_seconds([0], stat) == 2.0
    assert busy_seconds([0, 7], stat) is None
    assert busy_seconds([0], tmp_path / "nowhere") is None
