"""A live manager made of registered parts, with a decider of one's own behind its port."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.contract.plugins.delegating import Delegating, propose
from wharfinger.classification.learnt import learn
from wharfinger.classification.planner import JointPlanner
from wharfinger.classification.utility import Aspect
from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.core.lifecycle import Phase
from wharfinger.core.ports import Port
from wharfinger.core.state import WorkloadRecord
from wharfinger.errors import InvalidInput
from wharfinger.manifest import load_manifests
from wharfinger.model.decisions import ReasonCode
from wharfinger.model.performance import Quantity
from wharfinger.model.profile import Entry, Measurements
from wharfinger.policies.registry import POLICIES, Bundle, Part
from wharfinger.runtime import refit
from wharfinger.runtime.assembly import Options, assemble
from wharfinger.runtime.learning import ROWS
from wharfinger.runtime.runtime import Runtime
from wharfinger.runtime.state_directory import StateDirectory

MANIFEST = """
apiVersion: wharfinger.dev/v1alpha1
kind: Workload
metadata: {name: one}
spec: {type: batch, run: {command: ["true"]}, resources: {cpu: 100m, memory: 16Mi}}
"""


class Decider:
    """Proposes the least loaded server of the snapshot."""

    def __init__(self) -> None:
        self._answers: list[ev.Report] = []

    def perform(self, action: act.Action) -> None:
        """Answer at once."""
        if isinstance(action, act.DecidePlacement):
            self._answers.append(propose(action))

    def poll(self) -> Sequence[ev.Report]:
        """The answers."""
        answers, self._answers = self._answers, []
        return answers

    def fileno(self) -> int | None:
        """It answers at once."""
        return None

    def close(self) -> None:
        """Nothing is open."""


@pytest.fixture
def delegating(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(POLICIES, "delegating", Bundle(Part(Delegating)))


def _run(runtime: Runtime, until: Callable[[WorkloadRecord], bool]) -> list[ReasonCode]:
    """Let it run; the reasons of its decisions."""
    deadline = time.monotonic() + 60
    while not until(record := runtime.manager.find("one")):
        assert time.monotonic() < deadline, record
        runtime.pump()
        runtime.tick()
        time.sleep(0.01)
    return [timed.decision.reason for timed in record.decisions]


@pytest.mark.usefixtures("delegating")
@pytest.mark.parametrize("decides", [True, False])
def test_a_decider_is_plugged_into_a_live_manager(tmp_path: Path, *, decides: bool) -> None:
    services = {Port.DECIDER: Decider()} if decides else None
    last = ReasonCode.OK if decides else ReasonCode.NOT_SUPPORTED
    runtime = assemble(
        StateDirectory(tmp_path / "state"), Options(policy="delegating"), services=services
    )
    try:
        runtime.start()
        runtime.submit(load_manifests(MANIFEST, working_directory=str(tmp_path)))
        reasons = _run(
            runtime,
            lambda record: (
                record.phase is (Phase.COMPLETED if decides else Phase.QUEUED)
                and record.decisions[-1].decision.reason is last
            ),
        )
    finally:
        runtime.close()
    assert ReasonCode.DELEGATED in reasons


def test_a_provisioning_that_there_is_not_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="--provisioning: 'on-demand'"):
        assemble(StateDirectory(tmp_path / "state"), Options(provisioning="on-demand"))


def test_plans_are_made_by_the_known_programs_whatever_was_learnt(tmp_path: Path) -> None:
    """A replay knows those alone: after a restart it would make other plans than the log has."""
    directory = StateDirectory(tmp_path / "state")
    (job,) = load_manifests(MANIFEST, working_directory=str(tmp_path))

    def planned_by() -> dict[Aspect, set[str]]:
        runtime = assemble(directory, Options(policy="paragon"))
        runtime.close()
        planner = runtime.manager.policy.estimation
        assert isinstance(planner, JointPlanner)
        return {kind: set(matrix.rows) for kind, matrix in planner._made._matrices.items()}

    before = planned_by()
    row = Measurements({Quantity.RATE: {cpu: Entry(cpu / 1000) for cpu in (250, 500, 1000)}})
    refit.write_matrices(learn({}, job, row), directory.path / "learnt" / ROWS)
    assert planned_by() == before
