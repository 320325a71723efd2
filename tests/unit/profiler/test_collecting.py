"""In which order sets are measured, what a file keeps of them, and what is refused."""

from dataclasses import replace
from pathlib import Path

import pytest

from wharfinger.errors import InvalidInput
from wharfinger.files.contention_sets import CollectedSets, read_measurements
from wharfinger.manifest.loading import load_manifests
from wharfinger.model.workload import Workload
from wharfinger.profiler.collecting import (
    TRIES,
    Beside,
    CollectionPlan,
    SetCollection,
    SetSample,
    plan_of,
)
from wharfinger.profiling.steps import RunFailed

SERVICE = """\
apiVersion: wharfinger.dev/v1alpha1
kind: Workload
metadata: {name: web}
spec:
  type: latency-critical
  target: {throughput: 1/s}
  run: {command: [serve]}
  measure: {progress: {regex: 'done (.*)'}}
"""
LOSS = {"a": 0.98, "b": 0.97, "c": 0.99}


def batch(name: str) -> str:
    return (
        SERVICE.split("metadata", maxsplit=1)[0]
        + f"""\
metadata: {{name: {name}}}
spec:
  type: batch
  run: {{command: [work]}}
"""
    )


def loaded(*documents: str) -> tuple[Workload, ...]:
    return load_manifests("---\n".join(documents), working_directory="/")


def a_plan(**changes: object) -> CollectionPlan:
    plan = plan_of(loaded(SERVICE, *map(batch, LOSS)), "plan.yaml")
    return replace(plan, qos=0.9, degree=2, **changes)


class Multiplied:
    """Neighbors multiply; bubbles take a thousandth for each KiB."""

    def __init__(self, **of_set: float | str) -> None:
        self.of_set = of_set
        self.asked: list[str] = []

    def sample(self, beside: Beside) -> SetSample:
        self.asked.append(str(beside))
        told = self.of_set.get(str(beside))
        if isinstance(told, str):
            raise RunFailed(told)
        performance = 1.0 - 0.001 * beside.bubble_bytes / 1024
        for name in beside.neighbors:
            performance *= LOSS[name]
        return SetSample(told or performance, 0.002, 1.5, 1.25)


def collected(
    path: Path, plan: CollectionPlan, sampler: Multiplied, until: float = float("inf")
) -> SetCollection:
    collection = SetCollection(plan, CollectedSets(path), lambda _words: None)
    collection.run(plan.services[0], sampler, until)
    return collection


def test_bubbles_and_singles_come_first_and_then_what_tells_most(tmp_path: Path):
    sampler, out = Multiplied(), tmp_path / "m.csv"
    done = collected(out, a_plan(bubbles=(4096, 8192)), sampler).done
    assert sampler.asked[:5] == ["bubble:4Ki", "bubble:8Ki", "a", "b", "c"]
    pairs = sampler.asked[5:]
    assert pairs and set(pairs) <= {"a+a", "a+b", "a+c", "b+b", "b+c", "c+c"}
    assert len(set(sampler.asked)) == len(sampler.asked)
    assert done.measured == {"web": len(sampler.asked)}
    assert done.worth["web"] is not None and done.worth["web"] < 0.01
    (service,) = read_measurements(out).services
    assert service.names == ("a", "b", "c")
    header, first, *_ = out.read_text().splitlines()
    assert header == "ls,batch,platform,class,performance,error,seconds,load"
    assert first == "web,bubble:4Ki,,,0.99600,0.00200,1.50,1.25"


@pytest.mark.slow
def test_one_that_was_ended_goes_on_and_measures_nothing_twice(tmp_path: Path):
    out, whole = tmp_path / "m.csv", tmp_path / "whole.csv"
    for most in (2, 1, None):
        sampler = Multiplied()
        done = collected(out, a_plan(most=most), sampler).done
        assert most is None or len(sampler.asked) == most
    assert done.known == {"web": 3}
    collected(whole, a_plan(), Multiplied())
    assert out.read_text() == whole.read_text()


def test_a_file_goes_on_with_its_own_columns(tmp_path: Path):
    out = tmp_path / "m.csv"
    out.write_text("batch,performance,ls\na,0.98,web\nx,0.5,other")
    sampler = Multiplied()
    collected(out, a_plan(), sampler)
    assert sampler.asked[:2] == ["b", "c"]
    assert out.read_text().splitlines()[:4] == [
        "batch,performance,ls", "a,0.98,web", "x,0.5,other", "b,0.97000,web",
    ]  # fmt: skip


def test_what_fails_is_told_and_the_rest_goes_on(tmp_path: Path):
    sampler = Multiplied(b="work: ended with 1")
    done = collected(tmp_path / "m.csv", a_plan(), sampler).done
    assert done.failed == [("web", "b", "work: ended with 1")]
    assert not any("b" in each for each in sampler.asked[2:])
    assert len(sampler.asked) > 3


@pytest.mark.parametrize(
    ("of_set", "name", "reason"),
    [
        ({"a": 1.5}, "a", "150% of the performance alone is no slowdown, 3 times"),
        ({"bubble:4Ki": 0.9}, "bubble:8Ki", "web"),
    ],
)
def test_an_impossible_result_is_measured_again_and_then_left_out(
    tmp_path: Path, of_set: dict[str, float], name: str, reason: str
):
    sampler, out = Multiplied(**of_set), tmp_path / "m.csv"
    done = collected(out, a_plan(bubbles=(4096, 8192)), sampler).done
    assert sampler.asked.count(name) == TRIES
    ((_, failed, why),) = done.failed
    assert failed == name
    assert reason in why
    assert f"web,{name}," not in out.read_text()


def test_none_begins_after_its_time(tmp_path: Path):
    sampler = Multiplied()
    done = collected(tmp_path / "m.csv", a_plan(), sampler, until=0.0).done
    assert (sampler.asked, done.worth) == ([], {"web": None})


@pytest.mark.parametrize(
    ("documents", "words"),
    [
        ([batch("a")], "no service in it; write one with type: latency-critical"),
        ([SERVICE], "no neighbor in it; write one that is not latency-critical"),
        (
            [SERVICE.replace("  measure: {progress: {regex: 'done (.*)'}}\n", ""), batch("a")],
            "web: it is not measured; write spec.measure",
        ),
        (
            [SERVICE, batch("a").replace("[work]", "[work], user: nobody")],
            "a: run.user: 'nobody'; leave it out",
        ),
    ],
)
def test_a_plan_that_says_too_little_is_refused(documents: list[str], words: str):
    with pytest.raises(InvalidInput, match=f"plan.yaml: {words}"):
        plan_of(loaded(*documents), "plan.yaml")


def test_so_many_are_measured_of_all_services_together(tmp_path: Path):
    two = loaded(SERVICE, SERVICE.replace("name: web", "name: api"), *map(batch, LOSS))
    plan = replace(plan_of(two, "plan.yaml"), most=2)
    collection = SetCollection(plan, CollectedSets(tmp_path / "m.csv"), lambda _words: None)
    for service in plan.services:
        collection.run(service, Multiplied(), float("inf"))
    assert collection.done.measured == {"web": 2, "api": 0}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ls,batch,contention\nweb,a,0.1\n", "contentions, not performances"),
        ("ls,batch,performance\nweb,a,0.9\nweb,a,0.1\n", "has 0.1, and 0.9 in line 2"),
    ],
)
def test_a_file_that_can_not_go_on_is_refused_at_once(tmp_path: Path, text: str, words: str):
    out = tmp_path / "m.csv"
    out.write_text(text)
    with pytest.raises(InvalidInput, match=words):
        CollectedSets(out)


def test_a_packed_file_is_refused(tmp_path: Path):
    with pytest.raises(InvalidInput, match="a packed file can't grow"):
        CollectedSets(tmp_path / "m.csv.gz")
