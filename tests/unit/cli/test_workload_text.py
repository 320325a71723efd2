"""What an adjustment changed, in a few letters."""

import pytest

from tests.support.stories import placed
from wharfinger.cli.describe import describe_workload
from wharfinger.cli.workload_text import change


def on(*names: str, cpus: float = 1.0) -> list[dict[str, object]]:
    return [{"name": name, "cpus": cpus, "memory_bytes": 2**28} for name in names]


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (on("a"), on("a"), "-"),
        (on("a"), [], "-"),
        (on("a"), on("a", cpus=0.5), "1 -> 0.5 CPU"),
        (on("a"), on("a", "b"), "a -> a,b"),
        (on("a", "b"), on("a"), "a,b -> a"),
        (on("a", "b"), on("a", "c"), "a,b -> a,c"),
    ],
)
def test_what_was_resized(before, after, told: str) -> None:
    assert change({"kind": "resized", "from": before, "to": after}) == told


def test_why_says_once_that_something_is_recommended():
    story, name = placed()
    workload = story.explain(name)["workload"]
    for reason, message, why in (
        ("recommended", "recommended: raised to 2 CPU", "recommended: raised to 2 CPU"),
        ("no-room", "no server has it", "no-room: no server has it"),
    ):
        told = describe_workload({**workload, "reason": reason, "message": message})
        assert f"Why:          {why}\n" in told
