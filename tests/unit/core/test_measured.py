"""How measurements come into the state, and who is asked to be measured."""

from dataclasses import replace

from tests.support.cluster import Cluster, running, server, workload
from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.model.performance import NoSignal, Performance, Quantity, Reading, Sample, achieved
from wharfinger.model.view import Capabilities
from wharfinger.model.workload import Target

RATE = {Quantity.RATE: Reading(5.0, "progress lines")}


def cluster(*, measures: bool = True) -> Cluster:
    made = Cluster()
    able = Capabilities(measures=measures)
    made.tell(ev.ManagerStarted("n9", "0", "least-loaded", "fifo", "test", able))
    made.tell(ev.ServerReported(server("a")))
    made.sync()
    made.tell(ev.WorkloadSubmitted(workload("w")))
    running(made, "w")
    return made


def asked(found: Cluster) -> list[act.MeasureWorkload]:
    return [action for action in found.asked if isinstance(action, act.MeasureWorkload)]


def test_what_runs_is_asked_to_be_measured_once_and_again_after_a_change_or_restart() -> None:
    made = cluster()
    key = made.key("w")
    assert asked(made) == [act.MeasureWorkload(key, made.record("w").workload)]
    changed = replace(made.record("w").workload, target=Target(rate_per_second=1.0))
    made.tell(ev.WorkloadUpdated(changed))
    assert asked(made)[1:] == [act.MeasureWorkload(key, changed)]
    made.sync()
    assert asked(made)[2:] == [act.MeasureWorkload(key, changed)]


def test_an_engine_that_does_not_measure_is_not_asked() -> None:
    assert not asked(cluster(measures=False))


def test_the_newest_sample_is_kept_and_survives_a_replay() -> None:
    made = cluster()
    key = made.key("w")
    silent = {Quantity.LATENCY: NoSignal("nothing yet")}
    made.now = 7.0
    made.tell(ev.ServerMeasured("a", (Sample(key, RATE, silent), Sample("stranger", RATE))))
    kept = Performance(7.0, RATE, silent)
    assert made.record("w").performance == kept
    assert made.replayed().find("w").performance == kept


def test_samples_of_what_does_not_run_are_no_news() -> None:
    made = cluster()
    key = made.key("w")
    made.tell(ev.WorkloadFinished(key, 0, None, "exited"))
    assert not made.tell(ev.ServerMeasured("a", (Sample(key, RATE),))).events
    assert made.record("w").performance is None


def test_what_is_old_is_no_signal_and_what_is_not_trusted_is_not_achieved() -> None:
    proxy = {Quantity.RATE: Reading(5.0, "CPU time (proxy)", trusted=False)}
    assert achieved(Performance(0.0, proxy), 0.0).rate_per_second is None
    fresh = Performance(100.0, RATE)
    assert achieved(fresh.at(130.0), 0.0).rate_per_second == 5.0
    old = fresh.at(200.0)
    assert not old.readings
    assert old.silent == {Quantity.RATE: NoSignal("measured last 100 s ago")}
