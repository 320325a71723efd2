"""What an adjustment changed, in a few letters."""

import pytest

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
