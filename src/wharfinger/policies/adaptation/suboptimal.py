"""Choices that have become suboptimal are made again (Quasar 3.3).

A greedy placement takes the best of what is free at the time. Later other servers come free. In
each period a sample of those that keep their targets is placed again, those of high priority more
likely. One is moved where it keeps its target with less CPU, and where the CPU that this frees for
those who wait, until it ends, is more than the move costs.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from wharfinger.core import events as ev
from wharfinger.core.lifecycle import Phase
from wharfinger.core.seams.adaptation import Migrate, Residents
from wharfinger.core.state import WorkloadRecord
from wharfinger.model.allocation import cpu_of
from wharfinger.model.decisions import Place, ReasonCode, Stage
from wharfinger.model.performance import STALE_SECONDS
from wharfinger.model.units import cpu_number
from wharfinger.model.view import ALL_REASONS
from wharfinger.model.workload import Adapt, WorkloadType
from wharfinger.policies.adaptation.moving import left_seconds, ran_seconds, surely
from wharfinger.policies.adaptation.phases import sampled_at
from wharfinger.policies.adaptation.slack import Slack


@dataclass(frozen=True, slots=True)
class Suboptimal:
    """Places a sample of those that run again, under the settings of ``slack``."""

    slack: Slack

    def follow(self, now: float, event: ev.Event, cluster: Residents) -> Iterator[Migrate]:
        """Those of the sample whose moment has come with this measurement."""
        settings = self.slack.settings
        if not isinstance(event, ev.ServerMeasured) or settings.placed_again <= 0:
            return
        for sample in event.samples:
            record = cluster.running(sample.key)
            if record is None or not self._is_due(record) or not self._may_move(record, now):
                continue
            if not cluster.waiting_for_room() or self.slack.is_limit_reached(cluster.state, now):
                return
            yield from self._placed_again(now, record, cluster)

    def _is_due(self, record: WorkloadRecord) -> bool:
        """Whether it is of this period's sample, and its moment has come since it was measured.

        A priority p makes it as likely as that any of 1 + p draws is of the sample.
        """
        settings, performance = self.slack.settings, record.performance
        if performance is None or performance.measured_before is None:
            return False
        if performance.measured_at - performance.measured_before > STALE_SECONDS:
            return False
        period, priority = settings.placed_again_period_seconds, record.workload.priority
        draws = 1.0 + priority if priority >= 0 else 1.0 / (1 - priority)
        share = 1 - (1 - settings.placed_again) ** draws
        before, now = performance.measured_before, performance.measured_at
        periods = range(int(before // period), int(now // period) + 1)
        moments = (sampled_at(f"again:{record.key}", each, share, period) for each in periods)
        return any(at is not None and before < at <= now for at in moments)

    def _may_move(self, record: WorkloadRecord, now: float) -> bool:
        tracking = record.tracking
        return (
            tracking is not None
            and tracking.status >= 0
            and record.phase is Phase.RUNNING
            and len(record.placements) == 1
            and not (record.revoking or record.reclassifying or record.workload.best_effort)
            and record.workload.adapt is not Adapt.OFF
            and self.slack.is_settled(record, now)
            and self.slack.may_migrate(record, now)
        )

    def _placed_again(
        self, now: float, record: WorkloadRecord, cluster: Residents
    ) -> Iterator[Migrate]:
        view = cluster.view(record.workload)
        here = view.row(record.placements[0].server)
        request = replace(
            cluster.request(record, now), excluded=frozenset({here}), told=ALL_REASONS
        )
        verdict = cluster.placement.place(request, request.seen(view))
        predicted = verdict.decision.predicted
        if not isinstance(verdict, Place) or predicted is None or len(verdict.placements) != 1:
            return
        platforms = len(set(view.platform.tolist()))
        if surely(predicted, platforms).low < 1 - record.workload.tolerance:
            return
        before, after = cpu_of(record.placements), cpu_of(verdict.placements)
        left, lost = left_seconds(record, now), self.slack.settings.move_seconds
        is_service = record.workload.type is WorkloadType.LATENCY_CRITICAL
        if not (cluster.state.capabilities.keeps_work or is_service):
            lost += ran_seconds(record, now)
        # What is lost is done again there.
        freed, spent = (before - after) * left, after * lost
        if freed <= spent * (1 + self.slack.settings.moves_for_share):
            return
        server = verdict.placements[0].server
        message = (
            f"placed again, since others wait for room: {server} should keep its target with "
            f"{cpu_number(after)} CPU instead of {cpu_number(before)}"
        )
        numbers = {"freed_cpu_seconds": freed / 1000, "move_cpu_seconds": spent / 1000}
        decision = replace(
            verdict.decision,
            stage=Stage.ADAPTATION,
            reason=ReasonCode.PLACED_AGAIN,
            message=message,
            numbers={**verdict.decision.numbers, **numbers},
        )
        yield Migrate(record.name, verdict.placements, decision)
