"""Adaptation by load: more servers or fewer as the placement says, and nothing else.

The baseline of Quasar 5 and 6.3: no workload is suspended or migrated for a target.
"""

from collections.abc import Iterator

from wharfinger.core import events as ev
from wharfinger.core.lifecycle import Phase
from wharfinger.core.seams.adaptation import Remedy, Residents, Resize, Unchanged
from wharfinger.core.state import AdjustmentKind, WorkloadRecord
from wharfinger.model.decisions import recommended
from wharfinger.policies.adaptation.by_target import (
    ByTarget,
    carried_out,
    follow_reservation,
    measured_in,
    sized,
)
from wharfinger.policies.adaptation.slack import load_of


class ByLoad(ByTarget):
    """Asks the placement at each measurement, by load.

    It tracks as ``ByTarget`` does, so that users see how workloads stand to their targets, and
    resumes what another policy has suspended.
    """

    name = "by-load"

    def remedies(self, now: float, event: ev.Event, cluster: Residents) -> Iterator[Remedy]:
        """A changed reservation first; then the load of those that were measured."""
        yield from self.resume(now, cluster)
        for record in cluster.wants_resize():
            yield from self._news(record, follow_reservation(now, record, cluster), cluster)
        for record in measured_in(event, cluster):
            if record.phase is Phase.RUNNING and not record.revoking:
                yield from self._news(record, self._follow(now, record, cluster), cluster)

    def _follow(self, now: float, record: WorkloadRecord, cluster: Residents) -> Iterator[Remedy]:
        load = load_of(record)
        # A changed reservation comes first, on the servers where it is.
        if load is None or record.resize_wanted:
            return
        slack = self._slack
        if slack.is_settled(record, now) and not slack.is_limit_reached(cluster.state, now):
            yield from carried_out(record, sized(now, record, cluster, load=load))

    def _news(
        self, record: WorkloadRecord, remedies: Iterator[Remedy], cluster: Residents
    ) -> Iterator[Remedy]:
        """Without the newest one: a met target clears the reason each time."""
        for proposed in remedies:
            remedy = proposed
            if cluster.recommends and isinstance(remedy, Resize):
                remedy = Unchanged(remedy.name, recommended(remedy.decision))
            is_newest = isinstance(remedy, Unchanged) and any(
                made.kind is AdjustmentKind.UNCHANGED and made.reason == remedy.decision.reason
                for made in record.adjustments[-1:]
            )
            if not is_newest:
                yield remedy
