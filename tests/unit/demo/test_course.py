"""What is read from a manager, and how it is shown while it comes."""

import io
import sys

from tests.unit.demo.conftest import course, goals
from wharfinger.demo.plan import MEMBERS
from wharfinger.demo.screen import LiveScreen, PlainScreen, make_screen
from wharfinger.demo.timeline import busy_seconds, step_of
from wharfinger.demo.verdict import Seen, judge, read_clients


def event(kind, **data):
    decision = {
        "stage": "adaptation",
        "accepted": True,
        "reason": "ok",
        "message": "300m CPU become 450m",
    }
    return {
        "name": "web",
        "kind": kind,
        "logged_at": "1970-01-01T00:00:12.000Z",
        "data": {"decision": decision, **data},
    }


def test_a_changed_allocation_is_an_adjustment_and_a_new_classification_is_none():
    placements = [{"server": "server0", "allocation": {"cpu_millicpus": 450}}]
    planned = step_of(event("AllocationPlanned", placements=placements), epoch=2.0)
    assert (planned.at_seconds, planned.cpus, planned.adjusts) == (10.0, 0.45, True)
    assert planned.predicted is None
    assert not step_of(event("ClassificationPlanned"), epoch=2.0).adjusts
    assert step_of({**event("WorkloadFinished"), "data": {}}, epoch=2.0) is None


def test_what_clients_saw_is_judged_second_by_second(tmp_path):
    log = tmp_path / "web.clients"
    log.write_text(
        "".join(
            f"second={second} throughput=30.0 latency_ms={10.0 if second < 16 else 900.0} p50=1\n"
            for second in range(1, 21)
        )
    )
    seen = read_clients(log)
    assert seen[0] == Seen(1.0, 30.0, 0.01)
    web = MEMBERS[0]
    outcome = judge(course("quasar", good=True), web, goals()["web"], seen, 20.0)
    # Of the seconds from 6 to 20 the last five were too slow.
    assert (outcome.held_share, outcome.met) == (10 / 15, False)
    assert read_clients(tmp_path / "nobody") == []


def test_progress_in_a_pipe_is_lines(tmp_path):
    stream = io.StringIO()
    with PlainScreen(stream) as screen:
        screen.step(3, 5, "run 1")
        screen.goals(goals())
        screen.look(course("quasar", good=True))
    text = stream.getvalue()
    assert "[3/5] run 1" in text
    assert "web: 300m CPU become 450m" in text
    assert "20 s  web on target" in text


def test_progress_in_a_terminal_shows_every_workload(monkeypatch):
    monkeypatch.setenv("COLUMNS", "140")
    screen = LiveScreen()
    screen.step(3, 5, "run 1")
    screen.goals(goals())
    screen.look(course("quasar", good=True))
    with screen._console.capture() as captured:
        screen._console.print(screen._view())
    text = captured.get()
    for member in MEMBERS:
        assert member.name in text
    assert "300m CPU become 450m" in text


def test_without_rich_a_terminal_gets_lines_and_is_told_why(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    for module in ("rich", "rich.console", "rich.live"):
        monkeypatch.setitem(sys.modules, module, None)
    stream = Terminal()
    assert isinstance(make_screen(stream), PlainScreen)
    assert "rich is not installed" in stream.getvalue()


def test_busy_time_is_of_the_cpus_that_are_asked_for(tmp_path):
    stat = tmp_path / "stat"
    stat.write_text(
        "cpu  9 9 9 9 9 9 9 9\ncpu0 100 0 50 900 40 0 10 40 0 0\ncpu1 1 1 1 1 1 1 1 1\n"
    )
    assert busy_seconds([0], stat) == [2.0]
    assert busy_seconds([0, 7], stat) == []
    assert busy_seconds([0], tmp_path / "nowhere") == []
