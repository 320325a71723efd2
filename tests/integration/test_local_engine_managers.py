"""Managers of one machine that give out the same CPUs tell each other's users."""

import os
import re
import socket
from collections.abc import Collection
from pathlib import Path

import pytest

from tests.support.local import session
from wharfinger.core import events as ev
from wharfinger.engines.local import LocalEngine
from wharfinger.host.presence import Presence
from wharfinger.model.platform import ConditionKind
from wharfinger.testing.harness import Session

CPU, *OTHERS = sorted(os.sched_getaffinity(0))


def shared(cluster: Session, state: Path) -> list[str]:
    """What the newest report says of the manager on ``state``, beside which others may run."""
    report = [r for r in cluster.reports if isinstance(r, ev.ServerReported)][-1]
    identity = LocalEngine(state)._identity
    presence = Path("/proc/net/unix").read_text()
    own = re.search(rf"@wharfinger-manager/(\d+)/{identity}/", presence)
    pid = own[1] if own else "none"
    conditions = report.server.conditions
    messages = [c.message for c in conditions if c.kind is ConditionKind.SHARED_CPUS]
    return [message for message in messages if f"(process {pid})" in message]


def test_two_managers_of_the_same_cpus_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("wharfinger.engines.local.engine.LOOK_FOR_MANAGERS_SECONDS", 0.05)
    (tmp_path / "first").mkdir()
    (tmp_path / "second").mkdir()
    first_state, second_state = (tmp_path / name / "state" for name in ("first", "second"))
    with session(tmp_path / "first", servers=f"a={CPU}") as first:
        assert not shared(first, second_state)
        with session(tmp_path / "second", servers=f"b={CPU}") as second:
            [message] = shared(second, first_state)
            assert f"CPU {CPU}, too" in message
            assert "--servers" in message
            assert f"server b: {message}" in caplog.text
            first.wait_until(lambda: shared(first, second_state), "the first one sees the second")
        first.wait_until(lambda: not shared(first, second_state), "the second one is gone")


@pytest.mark.skipif(not OTHERS, reason="there is one CPU")
def test_managers_of_different_cpus_have_nothing_to_say(tmp_path: Path) -> None:
    (tmp_path / "first").mkdir()
    (tmp_path / "second").mkdir()
    with (
        session(tmp_path / "first", servers=f"a={CPU}"),
        session(tmp_path / "second", servers=f"b={OTHERS[0]}") as second,
    ):
        assert not shared(second, tmp_path / "first" / "state")


def test_names_that_are_no_managers_are_passed_over() -> None:
    presence = Presence("one")
    with socket.socket(socket.AF_UNIX) as stranger, socket.socket(socket.AF_UNIX) as other:
        stranger.bind(f"\0wharfinger-manager/x/{os.getpid()}/nonsense")
        other.bind(f"\0wharfinger-manager/{os.getpid()}/{os.getpid()}/0-9999999999")
        # Managers of other processes come and go.
        assert not [other for other in presence.others() if other.pid == os.getpid()]


@pytest.mark.parametrize(
    ("cpus", "told"),
    [
        ({0}, {0}),
        ({0, 1, 2, 6, 8, 9}, {0, 1, 2, 6, 8, 9}),
        (range(0, 200, 2), range(199)),  # too long for a name: from the lowest to the highest
    ],
)
def test_cpus_are_told(cpus: Collection[int], told: Collection[int]) -> None:
    speaker, listener = Presence("speaker"), Presence("listener")
    speaker.announce(cpus)
    try:
        [heard] = [other.cpus for other in listener.others() if other.pid == os.getpid()]
        assert heard == frozenset(told)
    finally:
        speaker.close()
