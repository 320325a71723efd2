"""What a watch tells before it is asked: a first number, a target that is left, and its return."""

from pathlib import Path

import pytest

from wharfinger.model.performance import Performance, Quantity, Reading, normalized_performance
from wharfinger.model.workload import LatencyBound, Run, Target, Workload, WorkloadType
from wharfinger.monitor.spec import WatchSpec, spec_of
from wharfinger.monitor.watch import MISSING_REPORT_SECONDS, Watch

LINE = r"throughput=(?P<throughput>\S+) latency_ms=(?P<latency_ms>\S+)"


class Told:
    """A watch that reads a file, with a clock of its own."""

    def __init__(self, path: Path, regex: str = LINE) -> None:
        self.path, self.now = path, 0.0
        path.touch()
        limits = {Quantity.THROUGHPUT: 90.0, Quantity.LATENCY: 0.1}
        spec = WatchSpec("k", "/", load_file=str(path), load_regex=regex, limits=limits)
        self.watch = Watch(spec, clock=lambda: self.now)

    def says(self, line: str) -> bool:
        """A second goes by, at whose end there is a line; whether that is told at once."""
        self.now += 1.0
        with self.path.open("a") as file:
            file.write(line + "\n")
        self.watch.read()
        is_news = self.watch.is_news
        if is_news:
            self.watch.note_report()
        return is_news


KEPT, SLOW, FEW = (
    "throughput=100 latency_ms=20",
    "throughput=100 latency_ms=3000",
    "throughput=1 latency_ms=20",
)


@pytest.mark.parametrize("missed", [SLOW, FEW])
def test_a_target_that_is_left_is_told_at_once_and_followed_until_it_is_kept(
    tmp_path: Path, missed: str
):
    told = Told(tmp_path / "lines")
    assert told.says(KEPT), "the first number"
    assert not any(told.says(KEPT) for _ in range(20))
    begins = next(second for second in range(10) if told.says(missed))
    assert begins <= 2
    every = round(MISSING_REPORT_SECONDS)
    assert [told.says(missed) for _ in range(3 * every)] == ([False] * (every - 1) + [True]) * 3
    after = [told.says(KEPT) for _ in range(40)]
    assert any(after)
    assert not any(after[20:]), "kept, and said so"


def test_a_load_that_rises_is_told_at_once(tmp_path: Path):
    told = Told(tmp_path / "lines", rf"offered=(?P<offered>\S+) {LINE}")
    assert told.says(f"offered=100 {KEPT}"), "the first number"
    assert not any(told.says(f"offered={load} {KEPT}") for load in (110, 95, 100, 115, 60, 100))
    assert told.says(f"offered=210 {KEPT}")
    assert not any(told.says(f"offered={load} {KEPT}") for load in (210, 215, 90))
    offered = told.watch.report().readings[Quantity.OFFERED]
    assert offered.value == pytest.approx(90, rel=0.01), "unsmoothed"


def test_a_load_that_is_negative_or_stops_to_be_told_has_a_reason(tmp_path: Path):
    told = Told(tmp_path / "lines", rf"offered=(?P<offered>\S+) {LINE}")
    told.says(f"offered=-3 {KEPT}")
    assert (
        told.watch.report()
        .silent[Quantity.OFFERED]
        .reason.endswith("-3 is no load; name what clients send offered")
    )
    told.says(f"offered=100 {KEPT}")
    assert Quantity.OFFERED not in told.watch.report().silent
    told.now += 60.0
    assert "nothing new" in told.watch.report().silent[Quantity.OFFERED].reason


@pytest.mark.parametrize("load", ["-3", "nan", "inf", "-inf", "many"])
def test_a_load_that_can_t_be_is_dropped_alone_and_is_no_silence(tmp_path: Path, load: str):
    told = Told(tmp_path / "lines", rf"offered=(?P<offered>\S+) ?({LINE})?")
    told.says(f"offered={load} {KEPT}")
    report = told.watch.report()
    assert report.readings[Quantity.THROUGHPUT].value == 100
    assert report.readings[Quantity.LATENCY].value == pytest.approx(0.02)
    assert Quantity.OFFERED not in report.readings
    assert report.silent[Quantity.OFFERED].reason.endswith("name what clients send offered")
    ((source, _),) = told.watch._readers
    for _ in range(30):
        told.says(f"offered={load}")
    assert source.said_at == told.now, "its generator is not restarted for saying nothing"


def test_limits_are_the_targets_with_their_tolerance():
    target = Target(throughput_per_second=100.0, latency=LatencyBound(95, 0.09))
    workload = Workload(
        "w", WorkloadType.LATENCY_CRITICAL, Run(("true",), "/"), target=target, tolerance=0.1
    )
    spec = spec_of(WatchSpec("k", "/"), workload)
    assert spec.limits == {
        Quantity.THROUGHPUT: pytest.approx(90.0),
        Quantity.LATENCY: pytest.approx(0.1),
    }
    assert WatchSpec.from_json(spec.to_json()).limits == spec.limits
    at_limits = {quantity: Reading(limit, "by hand") for quantity, limit in spec.limits.items()}
    assert normalized_performance(target, Performance(0.0, at_limits), 0.0) == pytest.approx(
        1 - workload.tolerance
    )


def test_lines_that_do_not_match_are_told_apart_from_none(tmp_path: Path):
    told = Told(tmp_path / "lines")
    told.watch.read()
    assert told.watch.why_silent(Quantity.THROUGHPUT).endswith("yet")
    told.says("rps=100")
    why = told.watch.why_silent(Quantity.THROUGHPUT)
    assert why.endswith("yet: no line of its output matches the regex")
