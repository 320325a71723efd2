"""Servers that are ordered for those that wait, and released; the pipeline calls it.

What a provisioning policy wants is logged here, once.
"""

from collections import Counter
from collections.abc import Callable, Mapping

from wharfinger.core import events as ev
from wharfinger.core.seams.provisioning import Order, ProvisioningPolicy, ProvisioningView, Release
from wharfinger.core.settings import CoreSettings
from wharfinger.core.state import ManagerState, WorkloadRecord
from wharfinger.model.decisions import Decision
from wharfinger.model.view import View


class Ordering:
    """Orders and releases of one core.

    Args:
        state: Read only.
        settings: The core's own.
        record: Logs an event.
        view: The cluster as policies see it now.
        waiting: How many workloads wait, by queue.
    """

    def __init__(
        self,
        state: ManagerState,
        settings: CoreSettings,
        record: Callable[[float, ev.Event], None],
        view: Callable[[], View],
        waiting: Callable[[], Mapping[str, int]],
    ) -> None:
        self._state = state
        self._settings = settings
        self._record = record
        self._view = view
        self._waiting = waiting

    def order_for(
        self, now: float, record: WorkloadRecord, platform: str, decision: Decision
    ) -> None:
        """A server of this platform for a workload, unless one is ordered for it."""
        ordered = {order.ordered_for for order in self._state.orders.values()}
        if record.name not in ordered and platform not in self.not_acquired(now):
            self._order(now, Order(platform, decision), record.name)

    def provision(self, now: float, provisioning: ProvisioningPolicy) -> None:
        """Order and release what the policy wants."""
        view = self.seen(now)
        for wanted in provisioning.provision(view):
            if isinstance(wanted, Release):
                if wanted.server in view.acquired and wanted.server not in self._state.releasing:
                    self._record(now, ev.ServerReleased(wanted.server, wanted.decision))
            elif wanted.platform not in view.not_acquired:
                self._order(now, wanted)

    def not_acquired(self, now: float) -> dict[str, float]:
        """By platform, until when nothing is ordered; ignores failures later than ``now``."""
        longest = self._settings.reorder_seconds
        failed = self._state.not_acquired.items()
        return {name: at + longest for name, at in failed if 0 <= now - at < longest}

    def seen(self, now: float) -> ProvisioningView:
        """What a provisioning policy reads now."""
        state = self._state
        ordered = Counter(order.platform for order in state.orders.values())
        acquired = {
            name: at
            for name, at in state.acquired.items()
            if name in state.servers and name not in state.releasing
        }
        waiting, failed = dict(self._waiting()), self.not_acquired(now)
        return ProvisioningView(self._view(), waiting, ordered, acquired, failed, now)

    def _order(self, now: float, order: Order, ordered_for: str = "") -> None:
        nonce = self._state.nonces[-1] if self._state.nonces else "0"
        key = f"order-{self._state.next_order}-{nonce}"
        self._record(now, ev.ServerOrdered(key, order.platform, order.decision, ordered_for))
