"""Comparisons in several processes: the same as in one, and nothing left whatever happens."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import first_and_long, wait_until
from tests.support.simulated_runs import Spec, simulate
from wharfinger.experiments.comparison import RunGroup, as_json, compare

ROOT = Path(__file__).resolve().parents[2]

# In a process of its own: the pool's resource tracker lives as long as whoever made the pool.
SCRIPT = """
import json, sys
from tests.support import simulated_runs
from tests.support.simulated_runs import Spec
from wharfinger.errors import WharfingerError
from wharfinger.experiments.comparison import RunGroup, as_json, compare

if __name__ == "__main__":
    work, scenario, told = getattr(simulated_runs, sys.argv[1]), sys.argv[2], []
    specs = [Spec(scenario, name) for name in ("least-loaded", "random")]
    try:
        (found,) = compare(work, [RunGroup("case", specs)], 4, 2, lambda *done: told.append(done))
    except (WharfingerError, RuntimeError) as error:
        sys.exit(f"{type(error).__name__}: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
    assert told[0] == (0, 8) and told[-1] == (8, 8) and told == sorted(told), told
    print(json.dumps(as_json(found)))
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return path


def start(script: Path, work: str, scenario: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, str(script), work, scenario],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # Whoever runs the tests in the background hands down an ignored interrupt.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509 - no threads here
    )


def outcome(script: Path, work: str) -> tuple[int, str, str]:
    process = start(script, work, "scenario.yaml")
    out, err = process.communicate(timeout=180)
    return process.returncode, out, err


def test_several_processes_find_what_one_does(script: Path):
    status, out, err = outcome(script, "simulate")
    assert (status, err) == (0, "")
    specs = [Spec("scenario.yaml", name) for name in ("least-loaded", "random")]
    assert json.loads(out) == as_json(
        compare(simulate, [RunGroup("case", specs)], 4, processes=1)[0]
    )


@pytest.mark.parametrize(
    ("work", "words"),
    first_and_long(
        [
            (
                "one_is_wrong",
                "InvalidInput: scenario under random, seed 3: no scenario of that name\n",
            ),
            (
                "one_is_damaged",
                "WharfingerError: scenario under random, seed 3: the log is cut off\n",
            ),
            ("one_has_a_fault", "seed 3: ZeroDivisionError('nothing arrived')\n"),
            (
                "one_is_killed",
                "Unavailable: a process that simulated was killed, as when memory runs",
            ),
        ]
    ),
)
def test_an_error_ends_all_and_says_where(script: Path, work: str, words: str):
    status, out, err = outcome(script, work)
    assert (status, out) == (1, "")
    assert words in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_whoever_is_interrupted_leaves_nothing(script: Path, tmp_path: Path, number: int):
    folder = tmp_path / "runs"
    folder.mkdir()
    process = start(script, "never_ends", str(folder))
    wait_until(lambda: len(list(folder.iterdir())) == 2, 120, "two runs have begun")
    if number == signal.SIGINT:
        os.killpg(process.pid, number)  # As a terminal does: all of them get it.
    else:
        process.kill()
    out, err = process.communicate(timeout=120)
    # That ends only when the last of them has closed its output. Of a killed one's semaphores
    # Python's resource tracker says that it cleans them up.
    assert "Traceback" not in err
    assert number == signal.SIGKILL or (out, err) == ("", "")
    assert process.returncode == (130 if number == signal.SIGINT else -signal.SIGKILL)
