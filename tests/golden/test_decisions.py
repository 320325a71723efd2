"""What is decided in many runs, as digests: a change that only renames or moves alters none.

After a change of the log's form, ``python -m tests.golden.test_decisions --update`` writes the
digests of logs anew, and refuses where a decision or a report differs; with ``--decide-anew`` it
writes those too.
"""

import json
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.support import first_and_long
from tests.support.recorded import (
    BASELINES,
    NAMES,
    SIMULATED,
    SLOW,
    digest_of,
    environment,
    recorded,
)

GOLDEN = Path(__file__).parent / "decisions"
ENVIRONMENT = GOLDEN / "environment.json"
OF_THE_FORM = ("log", "events")
"""Parts of a digest that hang on how the log is written."""
NEAR = 0.1
"""Of a number, or of 1 where that is more, that another machine's floats may make it differ."""

RUNS = [pytest.param(n, marks=[pytest.mark.slow] if n in SLOW else []) for n in NAMES]


@cache
def _first(name: str) -> dict[str, Any]:
    """The digest of this process' first run."""
    return digest_of(recorded(name))


def _kept(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((GOLDEN / f"{name}.json").read_text())
    return found


@pytest.mark.parametrize("name", RUNS)
def test_what_is_decided_is_what_was_decided(name: str) -> None:
    found, expected = _first(name), _kept(name)
    here, there = environment(), json.loads(ENVIRONMENT.read_text())
    if here == there:
        assert found == expected
        return
    if name in SIMULATED and SIMULATED[name].policy in BASELINES:
        assert found["events"] == expected["events"]
    _near(found["numbers"], expected["numbers"])
    pytest.skip(f"only numbers were compared: this machine's floats differ, {here} from {there}")


def _near(found: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    assert found.keys() == expected.keys()
    for key, number in expected.items():
        near = None if number is None else pytest.approx(number, rel=NEAR, abs=NEAR)
        assert found[key] == near, key


def test_a_run_for_each_digest() -> None:
    kept = {path.stem for path in GOLDEN.glob("*.json")} - {ENVIRONMENT.stem}
    assert kept == set(NAMES)


@pytest.mark.slow
@pytest.mark.parametrize("name", first_and_long(NAMES))
def test_the_same_process_decides_the_same_again(name: str) -> None:
    assert _first(name) == digest_of(recorded(name))


def _update(*, decide_anew: bool) -> None:
    """Write what is decided now."""
    GOLDEN.mkdir(exist_ok=True)
    for name in NAMES:
        path = GOLDEN / f"{name}.json"
        found = digest_of(recorded(name))
        kept = _kept(name) if path.exists() and not decide_anew else found
        differ = [key for key in found if key not in OF_THE_FORM and found[key] != kept.get(key)]
        if differ:
            sys.exit(f"{name}: {', '.join(differ)} differ: no mere change of form (--decide-anew)")
        path.write_text(json.dumps(found, indent=1) + "\n")
    ENVIRONMENT.write_text(json.dumps(environment(), indent=1) + "\n")
    sys.stdout.write(f"{len(NAMES)} digests in {GOLDEN}\n")


if __name__ == "__main__":
    if not {"--update", "--decide-anew"} & set(sys.argv):
        sys.exit(__doc__)
    _update(decide_anew="--decide-anew" in sys.argv)
