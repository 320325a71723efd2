"""Progress on a terminal, and nothing elsewhere; with a terminal and a clock made up."""

import io
import re

import pytest

from wharfinger.cli.progress import Progress


class Terminal(io.StringIO):
    encoding = "utf-8"  # type: ignore[assignment]

    def isatty(self) -> bool:
        return True

    def line(self) -> str:
        """What is to be seen."""
        return re.split(r"\r\x1b\[K", self.getvalue())[-1]


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setenv("TERM", "xterm")
    return Terminal()


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_in_a_pipe_there_is_nothing():
    pipe = io.StringIO()
    with Progress("simulating", pipe) as progress:
        progress.share(0.5)
        progress.count(1, 2)
    assert pipe.getvalue() == ""


def test_a_terminal_that_can_not_erase_gets_nothing(terminal, monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    with Progress("simulating", terminal) as progress:
        progress.share(0.5)
    assert terminal.getvalue() == ""


def test_one_run_tells_a_share_and_the_time_left(terminal, clock):
    with Progress("simulating", terminal, clock) as progress:
        clock.now += 30
        progress.share(0.25)
        assert terminal.line() == f"simulating {'━' * 7}{'─' * 23}  25%, 1m30s left"
        clock.now += 85
        progress.share(0.96)
        assert terminal.line() == f"simulating {'━' * 28}{'─' * 2}  96%, 5s left"
    assert terminal.line() == ""


def test_several_runs_are_counted(terminal, clock):
    with Progress("comparing 3 policies", terminal, clock) as progress:
        progress.count(0, 21)
        assert terminal.line() == f"comparing 3 policies {'─' * 30} 0 of 21"
        clock.now += 60
        progress.count(7, 21)
        assert terminal.line().endswith(" 7 of 21, 2m left")


def test_between_two_steps_the_time_left_runs_down(terminal, clock):
    with Progress("comparing", terminal, clock) as progress:
        clock.now += 60
        progress.count(1, 2)
        clock.now += 20
        progress.count(1, 2)
        assert terminal.line().endswith(" 1 of 2, 40s left")
        clock.now += 600
        progress.count(1, 2)
        assert terminal.line().endswith(" 1 of 2, 1s left")


def test_in_the_first_second_nobody_knows_how_long_it_takes(terminal, clock):
    with Progress("simulating", terminal, clock) as progress:
        clock.now += 0.5
        progress.share(0.1)
        assert terminal.line().endswith(" 10%")


def test_it_is_not_drawn_more_often_than_anybody_reads(terminal, clock):
    with Progress("simulating", terminal, clock) as progress:
        for step in range(1000):
            clock.now += 0.001
            progress.share(step / 1000)
        assert terminal.getvalue().count("\r") <= 11
        progress.share(1.0)
        assert "100%" in terminal.line()


def test_the_line_is_taken_back_whatever_happens(terminal, clock):
    with pytest.raises(KeyboardInterrupt), Progress("simulating", terminal, clock) as progress:
        progress.share(0.5)
        raise KeyboardInterrupt
    assert terminal.line() == ""


def test_a_line_never_wraps(terminal, clock, monkeypatch):
    monkeypatch.setattr(terminal, "fileno", lambda: 0)
    monkeypatch.setattr("os.get_terminal_size", lambda _fd: type("Size", (), {"columns": 24}))
    with Progress("simulating much", terminal, clock) as progress:
        progress.share(0.5)
        assert len(terminal.line()) == 23


def test_a_terminal_without_unicode_has_a_bar_too(terminal, clock):
    terminal.encoding = "latin-1"
    with Progress("simulating", terminal, clock) as progress:
        progress.share(0.5)
        assert f" {'#' * 15}{'-' * 15}  50%" in terminal.line()


def test_nothing_to_do_is_done(terminal, clock):
    with Progress("comparing", terminal, clock) as progress:
        progress.count(0, 0)
        assert terminal.line().endswith("0 of 0")
