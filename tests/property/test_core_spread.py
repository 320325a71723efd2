"""What holds of the core whatever happens, with workloads on several servers."""

from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from tests.property.test_core import AnyHistory
from tests.support.drawn import ABLE, SPREADING
from tests.support.watched import WatchedCluster
from wharfinger.model.view import Capabilities


class AnySpreadHistory(AnyHistory):
    """The same under policies that put workloads on several servers, and change on which."""

    @initialize(policy=st.sampled_from(SPREADING), able=ABLE)
    def begin(self, policy: str, able: Capabilities) -> None:
        self.cluster = WatchedCluster(
            policy, keep_ended=5, able=replace(able, max_servers_per_workload=3)
        )
        self.acknowledged: set[str] = set()
        self.deleted: set[str] = set()
        self.expiring: set[str] = set()
        self._begin_amid_things(profiled=False)

    @rule(pace=st.sampled_from([0.1, 0.3, 0.6, 0.8, 1.5]))
    def a_while_goes_by(self, pace: float) -> None:
        """Long enough that what is off its target, or loaded, is seen to."""
        self.all_goes_well()
        for name in "abc":
            self.measured(name, [pace], 4)


AnySpreadHistory.TestCase.settings = settings(stateful_step_count=40)
test_any_spread_history = AnySpreadHistory.TestCase
