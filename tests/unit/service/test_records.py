"""What the API says of predictions, measurements and adjustments, story by story."""

import json
from math import log
from typing import Any

import jsonschema
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support import stories
from tests.support.api import Api, manifest
from tests.support.stories import STORIES
from wharfinger.cli import targets
from wharfinger.cli.explain import explanation_text
from wharfinger.core.tracking import DemandTracking, LevelTracking, LoadForecast
from wharfinger.service.explanations import Explanation
from wharfinger.service.metrics import ManagerCollector, render
from wharfinger.service.models import timestamp

DESIGNED = {
    "name", "type", "phase", "target", "predicted", "achieved", "met", "servers", "cpus",
    "starts", "exit_code", "reason",
}  # fmt: skip
SCHEMA = Explanation.model_json_schema(mode="serialization")


def told(name: str) -> dict[str, Any]:
    story, workload = STORIES[name]()
    return story.explain(workload)


def scraped(story: stories.Story) -> dict[tuple[str, str], float]:
    """The metrics of a story's manager, by name and the value of the label."""
    text = render(
        ManagerCollector(
            story.manager,
            usage={},
            last_sequence=1,
            room_bytes=1,
            start_time=0.0,
            now=story.now,
        )
    ).decode()
    return {
        (sample.name, "".join(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@pytest.mark.parametrize("name", STORIES)
def test_every_answer_is_of_its_form_and_a_replay_gives_the_same(name: str) -> None:
    story, workload = STORIES[name]()
    shown = story.explain(workload)
    assert set(shown["workload"]) >= DESIGNED
    jsonschema.validate(json.loads(json.dumps(shown)), SCHEMA, jsonschema.Draft202012Validator)
    story.manager = story.replayed(len(story.log) // 2)
    assert story.explain(workload) == shown


def test_a_prediction_is_in_the_targets_terms_and_over_the_target() -> None:
    workload = told("placed")["workload"]
    predicted, found = workload["predicted"], workload["predicted"]["performance"]
    assert predicted["low"] < predicted["mean"] < predicted["high"]
    assert predicted["low"] >= 1
    assert found["rate_per_second"]["mean"] == pytest.approx(predicted["mean"] * 120)
    assert found["rate_per_second"]["low"] == pytest.approx(predicted["low"] * 120)
    assert (found["completion_seconds"], found["latency_seconds"]) == (None, None)


def test_an_adjustment_has_the_same_keys_wherever_it_is_shown() -> None:
    shown = told("resized")
    change = shown["workload"]["adjustments"][-1]
    assert {"from", "to"} < set(change)
    assert "source" not in change
    assert "CPU" in explanation_text(shown)


def test_a_completion_time_is_predicted_from_being_handed_in() -> None:
    workload = told("completed")["workload"]
    seconds = workload["predicted"]["performance"]["completion_seconds"]
    assert seconds["low"] < seconds["mean"] < seconds["high"] <= 120
    (error,) = workload["prediction_errors"]
    assert (error["name"], error["achieved"]) == ("completion_seconds", 96.0)
    assert workload["normalized_performance"] == pytest.approx(120 / 96)


def test_what_came_is_held_against_what_was_predicted() -> None:
    (error,) = told("placed")["workload"]["prediction_errors"]
    assert error["name"] == "rate_per_second"
    assert error["log_error"] == pytest.approx(log(127 / error["predicted"]))
    assert error["within"] is False


def test_nothing_is_checked_before_an_allocation_had_time_to_show() -> None:
    story = stories.Story()
    story.submit(stories.rate("encode", 120.0))
    story.profile("encode", stories.classified(), stories.measured())
    story.run("encode")
    story.measure(15, encode=90.0)
    workload = story.explain("encode")["workload"]
    assert workload["normalized_performance"] == 0.75
    assert workload["prediction_errors"] == []


def test_a_classification_tells_what_was_measured_from_what_was_filled_in() -> None:
    known = told("placed")["workload"]["classification"]
    (curve,) = known["curves"]
    assert [p["cpus"] for p in curve["points"] if p["measured"]] == [0.25, 0.5]
    assert all(p["low"] < p["mean"] < p["high"] for p in curve["points"])
    scores = {score["name"]: score for score in known["interference"]}
    assert scores["integer"]["tolerated_measured"]
    assert scores["storage-bandwidth"]["tolerated_censored"]
    assert not scores["storage-bandwidth"]["caused_measured"]
    assert known["silent"][0]["name"] == "caused/storage-bandwidth"
    assert (known["estimator"], known["version"], known["entries_measured"]) == ("gaussian", "1", 5)


def test_the_need_holds_what_was_given_and_the_least_that_reaches_the_target() -> None:
    need = told("placed")["need"]
    reaching = [point["cpus"] for point in need if point["reaches"]]
    assert min(reaching) == 0.4
    assert [point["cpus"] for point in need] == sorted(point["cpus"] for point in need)


@pytest.mark.parametrize("name", ["profiling-failed", "cold-start", "best-effort", "no-target"])
def test_nothing_is_predicted_where_nothing_is_known(name: str) -> None:
    found = told(name)
    assert found["workload"]["predicted"] is None
    assert found["workload"]["prediction_errors"] == []
    assert found["need"] == []


def test_an_adjustment_says_what_became_of_it() -> None:
    adjustments = told("resized")["workload"]["adjustments"]
    (resized,) = [a for a in adjustments if a["kind"] == "resized"]
    assert list(resized)[:4] == ["time", "kind", "from", "to"]
    assert (resized["from"][0]["cpus"], resized["to"][0]["cpus"]) == (0.4, 0.7)
    assert resized["normalized_performance_before"] == pytest.approx(80 / 120)
    assert resized["normalized_performance_after"] == pytest.approx(129 / 120)
    assert "raised from" in resized["message"]


def test_keys_of_the_version_before_answer_beside_the_new_ones() -> None:
    story, name = stories.resized()
    shown = story.explain(name)
    workload, point = shown["workload"], shown["need"][0]
    for row in (workload, workload["usage"], point):
        assert row["pace"] == row["normalized_performance"]
    for adjustment in workload["adjustments"]:
        for when in ("before", "after"):
            assert adjustment[f"pace_{when}"] == adjustment[f"normalized_performance_{when}"]
    usage = story.usage()[name][1]
    assert usage["neighbours"] == usage["co_runners"]
    properties = SCHEMA["$defs"]["UsageModel"]["properties"]
    assert properties["neighbours"]["deprecated"]
    assert properties["pace"]["deprecated"]


def test_a_resize_is_predicted_along_the_curve_from_how_it_did() -> None:
    predicted = told("resized")["workload"]["predicted"]
    assert predicted["mean"] == pytest.approx(80 / 120 * (0.7 / 0.4) ** 0.9, rel=0.01)


def test_both_are_told_when_one_gives_way_to_the_other() -> None:
    story, _ = stories.relieved()
    gave, got = story.explain("filler")["workload"], story.explain("encode")["workload"]
    assert gave["suspensions"] == 1
    assert [a["kind"] for a in gave["adjustments"]] == ["suspended"]
    assert gave["adjustments"][0]["to"] == []
    assert got["adjustments"][-1]["kind"] == "relieved"
    assert (
        got["adjustments"][-1]["normalized_performance_after"]
        > got["adjustments"][-1]["normalized_performance_before"]
    )


def test_one_that_was_migrated_says_from_where_to_where() -> None:
    moved = told("moved")["workload"]["adjustments"][-1]
    assert moved["kind"] == "migrated"
    assert [p["name"] for p in (*moved["from"], *moved["to"])] == ["server0", "server1"]


def test_a_resize_that_could_not_be_had_is_told() -> None:
    from wharfinger.core import events as ev  # noqa: PLC0415 - only here

    story = stories.Story()
    stories._placed(story)
    story.obey = lambda actions: None  # type: ignore[method-assign] # the engine is slow
    story.measure(15, encode=80.0)
    story.tell(ev.ResizeFailed(story.key("encode"), "the kernel refused"))
    kinds = [a["kind"] for a in story.explain("encode")["workload"]["adjustments"]]
    assert kinds == ["resized", "unchanged"]


def test_only_so_many_adjustments_are_kept() -> None:
    story, _ = stories.relieved()
    for _ in range(40):
        story.measure(60, encode=210.0)
        story.measure(60, encode=100.0, filler=0.3)
    assert len(story.record("encode").adjustments) <= 32


def test_who_holds_a_server_up_is_named() -> None:
    waiting = told("neighbour-off-prediction")["waiting"]
    assert waiting["unsettled_by"] == ["encode"]
    assert waiting["now"][0]["reason"] == "off-prediction"


def test_what_a_manager_recommends_is_not_done() -> None:
    story, name = stories.recommended()
    found = story.explain(name)
    assert (found["mode"], found["workload"]["phase"]) == ("recommend", "queued")
    assert found["workload"]["reason"] == "recommended"
    assert found["workload"]["predicted"]["mean"] > 1
    assert {type(a).__name__ for a in story.asked} <= {"ClassifyWorkload", "ProfileWorkload"}


def test_a_server_shows_what_its_residents_bear_and_exert() -> None:
    story, _ = stories.would_disturb()
    (server,) = story.servers()
    pressure = {p["name"]: p for p in server["pressure"]}
    assert (pressure["integer"]["caused"], pressure["storage-bandwidth"]["tolerated"]) == (20, 20)
    assert (server["copies"], server["unsettled"]) == (0, False)
    story, _ = stories.being_profiled()
    assert [s["copies"] for s in story.servers()] == [1, 0]
    story, _ = stories.neighbour_off_prediction()
    assert [s["unsettled"] for s in story.servers()] == [True]


def test_usage_names_neighbours_and_the_last_adjustment() -> None:
    story, _ = stories.suspended()
    shown = {name: usage for name, (_, usage) in story.usage().items()}
    assert shown["encode"]["co_runners"] == ["filler"]
    assert shown["encode"]["last_adjustment"]["kind"] == "relieved"
    assert shown["filler"]["phase"] == "suspended"
    assert shown["encode"]["normalized_performance"] == 0.75


def test_metrics_count_adjustments_errors_and_targets() -> None:
    story, _ = stories.relieved()
    found = scraped(story)
    assert found["wharfinger_targets_met", "yes"] == 1
    assert found["wharfinger_adjustments_total", "suspended"] == 1
    assert found["wharfinger_adjustments_total", "relieved"] == 1
    assert found["wharfinger_predictions_checked", "rate_per_second"] == 1
    (error,) = story.explain("encode")["workload"]["prediction_errors"]
    assert found["wharfinger_workload_measured", "rate_per_secondencode"] == error["achieved"]
    assert found["wharfinger_workload_target_met", "encode"] == 1
    errors = {name: value for name, value in found.items() if "prediction_error_log" in name[0]}
    assert list(errors.values()) == [abs(error["log_error"])]


def test_metrics_say_nothing_of_errors_where_nothing_was_predicted() -> None:
    story, _ = stories.no_target()
    assert not any("prediction_error_log" in name for name, _ in scraped(story))


def test_a_forecast_of_the_load_and_its_error_are_shown_until_its_time_has_come() -> None:
    story, _ = stories.relieved()
    made = LoadForecast(
        made_at=story.now,
        valid_until=story.now + 4,
        horizon_seconds=30.0,
        mean_per_second=140.0,
        low_per_second=110.0,
        high_per_second=180.0,
        later_per_second=150.0,
        error_log=0.08,
        season=(1, 15),
        by_season=True,
    )
    record = story.manager.state.workloads["encode"]
    record.demand = DemandTracking(LevelTracking(4.0, 9, 0.1), forecast=made)
    found = scraped(story)
    assert found["wharfinger_workload_load_forecast_per_second", "encode"] == 140.0
    assert found["wharfinger_workload_load_forecast_error_log", "encode"] == 0.08
    workload = story.explain("encode")["workload"]
    assert targets.forecast(workload) == "140/s in 30 s (110 to 180), season 1m, error 8%"
    story.now += 31
    assert story.explain("encode")["workload"]["forecast"] is None
    assert ("wharfinger_workload_load_forecast_per_second", "encode") not in scraped(story)


def test_a_preview_of_one_that_is_to_be_profiled_ends_with_that() -> None:
    story = stories.Story()
    decisions = story.manager.preview(stories.rate("encode", 120.0), story.now)
    assert [(d.stage.value, d.accepted) for d in decisions] == [
        ("admission", True),
        ("profiling", True),
    ]
    story, name = stories.placed()
    running = story.record(name).workload
    assert story.manager.preview(running, story.now) == [], "nothing would be decided about it"


def test_the_api_answers_with_the_same_keys(api: Api) -> None:
    api.submit(manifest("w", target={"rate": "10/s"}))
    document = api.get("/openapi.json")["components"]["schemas"]
    assert {"from", "to", "pace_before"} <= set(document["AdjustmentModel"]["properties"])
    assert set(api.get("/v1/workloads/w")) == set(document["WorkloadDetail"]["properties"])
    assert set(api.get("/v1/workloads/w/explain")) == set(document["Explanation"]["properties"])
    assert set(api.get("/v1/usage")[0]) == set(document["UsageModel"]["properties"])
    assert set(api.get("/v1/servers")[0]) == set(document["ServerModel"]["properties"])
    assert api.get("/v1/status")["mode"] == "act"


def test_times_of_a_story_are_those_of_its_log() -> None:
    story, name = stories.resized()
    shown = story.explain(name)["workload"]["adjustments"][0]["time"]
    assert shown == timestamp(story.record(name).adjustments[0].time)
