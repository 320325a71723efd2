"""Adaptation by load: more servers or fewer as the placement says, and nothing else.

The baseline of Quasar 5 and 6.3: no workload is suspended or migrated for a target.
"""

from collections.abc import Iterator

from wharfinger.core import events as ev
from wharfinger.core.lifecycle import Phase
from wharfinger.core.seams.adaptation import Remedy, Residents, Resize, Unchanged
from wharfinger.core.state import AdjustmentKind, WorkloadRecord
from wharfinger.core.tracking import Tracked
from wharfinger.model.decisions import recommended
from wharfinger.model.profile import Estimate, Measurements
from wharfinger.policies.adaptation.by_target import (
    ByTarget,
    carried_out,
    follow_reservation,
    measured_in,
)
from wharfinger.policies.adaptation.slack import Slack, TargetSettings, load_of


class ByLoad:
    """Asks the placement at each measurement, by load.

    Args:
        settings: How long an adjustment has to show, and how many there are a minute.
    """

    name = "by-load"

    def __init__(self, settings: TargetSettings | None = None) -> None:
        self.settings = settings or TargetSettings()
        self._slack = Slack(self.settings)
        self._targets = ByTarget(self.settings)

    def track(self, record: WorkloadRecord, now: float, slowdown: Estimate | None) -> Tracked:
        """As ``ByTarget``: how it stands to its target is told, and not acted on."""
        return self._slack.track(record, now, slowdown)

    def measured(self, record: WorkloadRecord) -> Measurements | None:
        """As ``ByTarget``."""
        return self._slack.measured(record)

    def wake_at(self, now: float, cluster: Residents) -> float | None:
        """When one that another policy has suspended is resumed."""
        return self._targets.wake_at(now, cluster)

    def remedies(self, now: float, event: ev.Event, cluster: Residents) -> Iterator[Remedy]:
        """A changed reservation first; then the load of those that were measured."""
        yield from self._targets.resume(now, cluster)
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
            request = cluster.request(record, now, load=load)
            verdict = cluster.placement.resize(request, record.placements, cluster.view())
            yield from carried_out(record, verdict)

    def _news(
        self, record: WorkloadRecord, remedies: Iterator[Remedy], cluster: Residents
    ) -> Iterator[Remedy]:
        """Without what was told last: a met target clears the reason each time."""
        for proposed in remedies:
            remedy = proposed
            if cluster.recommends and isinstance(remedy, Resize):
                remedy = Unchanged(remedy.name, recommended(remedy.decision))
            newest = record.adjustments[-1:]
            told = isinstance(remedy, Unchanged) and any(
                made.kind is AdjustmentKind.UNCHANGED and made.reason == remedy.decision.reason
                for made in newest
            )
            if not told:
                yield remedy
