"""What runs and enters another phase: found, probed, classified again (Paragon 3.4).

What may not be copied is probed as well, for its first scores (``profile: {mode: live}``).

*Reactive*: performance has left its level, and neither a neighbor nor load is why. *Pre-emptive*: a
sample of all that run is probed now and then. Two sources of interference rise beside it; its new
scores go to the classifier as observed. What then follows from its classification is in
``by_target``.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import hypot
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from wharfinger.classification.classifier import measured_score
from wharfinger.classification.joint_plan import UNMEASURED_STD, drawn
from wharfinger.core import events as ev
from wharfinger.core.lifecycle import Phase
from wharfinger.core.seams.adaptation import RaiseSources, Reclassify, Remedy, Residents, Unchanged
from wharfinger.core.state import WorkloadRecord
from wharfinger.core.tracking import ProbeCause, ProbeState
from wharfinger.model.allocation import Placement
from wharfinger.model.decisions import Decision, ReasonCode, Stage
from wharfinger.model.interference import OF_A_CORE, SharedResource
from wharfinger.model.platform import MILLICPUS_PER_CPU
from wharfinger.model.profile import Entry, Estimate, Measurements
from wharfinger.model.view import View
from wharfinger.model.workload import ProfileMode, WorkloadType
from wharfinger.policies.adaptation.learning import Learning
from wharfinger.policies.adaptation.levels import describe, has_just_changed
from wharfinger.policies.adaptation.phase_settings import PhaseSettings
from wharfinger.policies.adaptation.slack import is_recent

_SPREAD = 2.0**32


@dataclass(frozen=True, slots=True)
class Phases:
    """Finds phases, under these settings."""

    settings: PhaseSettings
    learning: Learning

    def follow(self, now: float, event: ev.Event, cluster: Residents) -> Iterator[Remedy]:
        """Probe those that were measured and have a reason, or are due; take in what was told."""
        if not cluster.estimates:
            return
        if isinstance(event, ev.WorkloadProbed):
            record = cluster.running(event.key)
            if record is not None and record.probe is not None:
                yield from self._told(record, record.probe, cluster)
        elif isinstance(event, ev.ServerMeasured):
            running = (cluster.running(sample.key) for sample in event.samples)
            for record in [each for each in running if each is not None]:
                yield from self._look(now, record, cluster)

    def _look(self, now: float, record: WorkloadRecord, cluster: Residents) -> Iterator[Remedy]:
        if record.phase is not Phase.RUNNING or record.revoking or record.workload.best_effort:
            return
        if record.classification is None or record.reclassifying or not _may_be_probed(record):
            return
        level = record.level
        if self.settings.reactive and level is not None and self.has_changed(now, record, cluster):
            yield from self._react(now, record, describe(level), cluster)
        elif _lacks_scores(record) and level and level.samples >= self.settings.level.warm_up:
            message = "no score of its own is known"
            yield from self._probe(now, record, ProbeCause.PROFILE, message, cluster)
        elif self._is_due(now, record):
            message = "one of the sample of this period"
            yield from self._probe(now, record, ProbeCause.PREEMPTIVE, message, cluster)

    def ask(
        self, now: float, record: WorkloadRecord, why: str, cluster: Residents
    ) -> Iterator[Remedy]:
        """A new profile of one that runs, where it may be had and none was taken lately."""
        between, known = self.settings.between_seconds, record.classification is not None
        if not (cluster.estimates and known) or record.reclassifying or not _may_be_probed(record):
            return
        probe = record.probe
        lately = probe is not None and (
            probe.under_way or is_recent(probe.answered_at, now, between)
        )
        if not (lately or is_recent(record.classified_at, now, between)):
            yield from self._react(now, record, why, cluster)

    # --- when ------------------------------------------------------------------------------------

    def has_changed(self, now: float, record: WorkloadRecord, cluster: Residents) -> bool:
        """Whether it has left its level now, and no neighbor that has left its own is why.

        Of several on a server that change together, the one that changes most has a new phase. A
        neighbor that has more or less CPU than before presses more or less.
        """
        if record.level is None or not has_just_changed(record, now):
            return False
        own, window = abs(record.level.shift), self.settings.level.level_settling_seconds
        # A small change is found some measurements after a large one that began with it.
        began = now if record.level.changes_since is None else record.level.changes_since
        neighbors = cluster.neighbors(record)
        adjusted = any(
            r.adjusted_at is not None and r.adjusted_at > began - window for r in neighbors
        )
        if adjusted and own <= self.settings.pressed_shift:
            return False
        others = [r.level for r in neighbors if r.level is not None]
        lately = [
            each
            for each in others
            if each.changed_at is not None and each.changed_at > began - window
        ]
        return all(abs(each.shift) <= own for each in lately)

    def _is_due(self, now: float, record: WorkloadRecord) -> bool:
        """Whether it is of this period's sample, its moment has come, and it has run before it."""
        share, period = self.settings.share, self.settings.period_seconds
        if share <= 0 or record.started_at is None:
            return False
        number = int(now // period)
        at = sampled_at(record.key, number, share, period)
        if at is None or now < at or record.started_at > at:
            return False
        return record.probe is None or record.probe.planned_at < number * period

    # --- probing ---------------------------------------------------------------------------------

    def _react(
        self, now: float, record: WorkloadRecord, why: str, cluster: Residents
    ) -> Iterator[Remedy]:
        probed = False
        for remedy in self._probe(now, record, ProbeCause.REACTIVE, why, cluster):
            probed = True
            yield remedy
        if not probed:
            decision = _decided(cluster, f"another phase: {why}; reclassified by that alone")
            platform = cluster.platform_of(record)
            yield Reclassify(record.name, self.learning.corrected(record, platform), decision)

    def _probe(
        self,
        now: float,
        record: WorkloadRecord,
        cause: ProbeCause,
        why: str,
        cluster: Residents,
    ) -> Iterator[Remedy]:
        tolerance = self._tolerance(record, cause)
        able = cluster.state.capabilities.probes_running and cluster.may_adjust(record)
        if not able or tolerance <= 0:
            return
        before = record.probe
        if before is not None and (
            before.under_way or is_recent(before.answered_at, now, self.settings.between_seconds)
        ):
            return
        sources, placements = self._how(record, cluster)
        if not sources:
            return
        where = f"a copy on {placements[0].server}" if placements else "where it runs"
        names = " and ".join(source.value for source in sources)
        what = "profiled" if cause is ProbeCause.PROFILE else "probed for another phase"
        message = f"{what}, {why}: {names} beside {where}"
        decision = _decided(cluster, message)
        yield RaiseSources(record.name, sources, tolerance, cause, decision, placements)

    def _tolerance(self, record: WorkloadRecord, cause: ProbeCause) -> float:
        """How far its performance may drop: half of what it has above its target; 0 = not at all.

        Of one that violates its target, or has none, no QoS breaks by it.
        """
        settings, tracking = self.settings, record.tracking
        if tracking is None:
            return settings.tolerance
        least = 1 - record.workload.tolerance
        reached = max(tracking.normalized_performance, tracking.headroom or 0.0)
        if reached <= least:
            return settings.tolerance
        spare = (reached - least) / reached / 2
        if spare < settings.min_tolerance:
            return settings.min_tolerance if cause is ProbeCause.REACTIVE else 0.0
        return min(settings.tolerance, spare)

    def _how(
        self, record: WorkloadRecord, cluster: Residents
    ) -> tuple[tuple[SharedResource, ...], tuple[Placement, ...]]:
        """In vivo where the sources reach it alone, and all of it; else in vitro; else no sources.

        A copy of what runs on several servers is one of what is on the first.
        """
        classified, view = record.classification, cluster.view()
        assert classified is not None
        here = record.placements[0].server
        able = cluster.state.capabilities.sources
        is_live = record.workload.profile.mode is ProfileMode.LIVE
        known = [s for s in able if is_live or s in classified.tolerated]
        row = view.row(here)
        is_one = len(record.placements) == 1
        is_alone = not (cluster.neighbors(record) or view.copies[row] or _holds_others(view)[row])
        if is_one and is_alone and view.cpu_allocated[row] < view.cpu_capacity[row]:
            return self._sources(record, known), ()
        shares_cores = cluster.state.capabilities.shares_cores
        private = [] if shares_cores else [source for source in known if source in OF_A_CORE]
        if is_one and private:
            return self._sources(record, private), ()
        placement = None if is_live else self._empty_server(record, cluster)
        return (self._sources(record, known), (placement,)) if placement else ((), ())

    def _sources(
        self, record: WorkloadRecord, of: Sequence[SharedResource]
    ) -> tuple[SharedResource, ...]:
        """Those that it was measured beside, which are compared best; then where it loses most.

        Where none was measured, those of which least is known, more often than others.
        """
        assert record.classification is not None
        measured = record.measurements.tolerated if record.measurements else {}
        if _lacks_scores(record):
            return self._uncertain(record, of)
        of = [source for source in of if source in record.classification.tolerated]
        bears, causes = record.classification.tolerated, record.classification.caused

        def spare(source: SharedResource) -> float:
            return bears[source].mean - (causes[source].mean if source in causes else 0.0)

        order = sorted(of, key=lambda each: (each not in measured, spare(each), each.value))
        return tuple(order[: self.settings.sources])

    def _uncertain(
        self, record: WorkloadRecord, of: Sequence[SharedResource]
    ) -> tuple[SharedResource, ...]:
        assert record.classification is not None
        known = record.classification.tolerated
        unknown = {s: (known[s].std if s in known else UNMEASURED_STD) ** 2 for s in of}
        chosen = list[SharedResource]()
        while unknown and len(chosen) < self.settings.sources:
            chosen.append(drawn(unknown, record.name))
            del unknown[chosen[-1]]
        return tuple(chosen)

    def _empty_server(self, record: WorkloadRecord, cluster: Residents) -> Placement | None:
        """For a copy that does what it does now, and the sources; where it holds little state.

        Of the platform on which its scores were measured before, if possible, else of its own, else
        of any.
        """
        workload, able = record.workload, cluster.state.capabilities
        held = record.placements[0].allocation
        # What has an end and begins anew is in its first phase again; a service does as before.
        is_service = workload.type is WorkloadType.LATENCY_CRITICAL
        if not able.clones and not (able.copies_running and is_service):
            return None
        if workload.scale.stateful:
            return None
        if held.memory_bytes > self.settings.copied_bytes:
            return None
        view = cluster.view(workload)
        empty = (view.accepting == 1) & (view.residents == 0) & (view.copies == 0)
        empty &= ~_holds_others(view)
        empty &= view.cpu_capacity >= held.cpu_millicpus + MILLICPUS_PER_CPU
        empty &= view.memory_capacity >= held.memory_bytes
        measured = record.measurements.platform if record.measurements else ""
        for platform in (measured, cluster.platform_of(record), *view.platforms):
            if platform in view.platforms:
                there = empty & (view.platform == view.platforms.index(platform))
                if there.any():
                    return Placement(view.names[int(there.argmax())], held)
        return None

    # --- what was told ---------------------------------------------------------------------------

    def _told(
        self, record: WorkloadRecord, probe: ProbeState, cluster: Residents
    ) -> Iterator[Remedy]:
        """Classify it again where a score is another one, or its performance has changed."""
        why = self.deviation(record, probe.answer) if probe.answer is not None else ""
        why = why or self._left_level(probe)
        if probe.cause is ProbeCause.PROFILE and probe.answer and probe.answer.tolerated:
            why = "its first scores"
        if probe.cause is ProbeCause.REACTIVE:
            why = why or "its performance, if none of its scores"
        if not why:
            message = "no other phase: its scores are as they were"
            decision = _decided(cluster, message)
            yield Unchanged(record.name, replace(decision, reason=ReasonCode.OK))
            return
        platform = cluster.platform_of(record)
        measured = self.learning.corrected(record, platform)
        if probe.answer is not None:
            measured = replace(
                measured,
                tolerated={**measured.tolerated, **probe.answer.tolerated},
                caused={**measured.caused, **probe.answer.caused},
            )
        message = why if probe.cause is ProbeCause.PROFILE else f"another phase: {why}"
        yield Reclassify(record.name, measured, _decided(cluster, message))

    def _left_level(self, probe: ProbeState) -> str:
        """That it has clearly left its level since its scores were taken; empty = it has not.

        What was put down to a neighbor then, or was not looked at. Where it is back at its level
        it may still be another phase: programs have more than one of the same speed.
        """
        change = probe.left_level
        is_clear = change is not None and abs(change.shift) >= self.settings.clear_shift
        return describe(change) if change is not None and is_clear else ""

    def deviation(self, record: WorkloadRecord, told: Measurements) -> str:
        """The score that is most clearly another one than before; empty = none is."""
        most, what = self.settings.deviates, ""
        profiled = record.measurements.platform if record.measurements else ""
        elsewhere = self.settings.elsewhere_points if told.platform != profiled else 0.0
        for kind in ("tolerated", "caused"):
            for source, entry in getattr(told, kind).items():
                before = _score_before(record, kind, source)
                now = measured_score(entry)
                if before is not None and source not in getattr(record.measurements, kind, {}):
                    before = replace(before, std=hypot(before.std, self.settings.estimated_points))
                if before is not None:
                    before = replace(before, std=hypot(before.std, elsewhere))
                if kind == "caused" and before is not None:
                    # A source is slowed only beyond a limit: what is read below that is nothing.
                    before = replace(before, std=max(before.std, self.settings.caused_points))
                    now = replace(now, std=max(now.std, self.settings.caused_points))
                if before is None or abs(now.mean - before.mean) < self.settings.min_points:
                    continue
                off = abs(now.mean - before.mean) / hypot(now.std, before.std)
                if off > most:
                    most = off
                    what = f"{kind} {source.value} is {now.mean:.0f}, was {before.mean:.0f}"
        return what


def _score_before(record: WorkloadRecord, kind: str, source: SharedResource) -> Estimate | None:
    measured: dict[SharedResource, Entry] = getattr(record.measurements, kind, {})
    if source in measured:
        return measured_score(measured[source])
    scores: dict[SharedResource, Estimate] = getattr(record.classification, kind, {})
    return scores.get(source)


def sampled_at(what: str, number: int, share: float, period_seconds: float) -> float | None:
    """When something is looked at in the so-numbered period; ``None`` = it is not of its sample.

    Those that are drawn are spread over the period.
    """
    drawn = crc32(f"{what}:{number}".encode()) / _SPREAD
    return (number + drawn / share) * period_seconds if drawn < share else None


def _may_be_probed(record: WorkloadRecord) -> bool:
    given = [each.allocation.cpu_millicpus for each in record.placements]
    return min(given, default=0) > 0 and record.workload.profile.mode is not ProfileMode.NONE


def _lacks_scores(record: WorkloadRecord) -> bool:
    """Whether its scores are to be measured as it runs, and have not been yet."""
    is_live = record.workload.profile.mode is ProfileMode.LIVE
    is_asked = record.probe is None or record.probe.answer is None
    return is_live and is_asked and not (record.measurements and record.measurements.tolerated)


def _holds_others(view: View) -> NDArray[np.bool_]:
    """(S,) Where work that is not ours holds anything."""
    return np.zeros(len(view.names), np.bool_) if view.cpu_others is None else view.cpu_others > 0


def _decided(cluster: Residents, message: str) -> Decision:
    return Decision(Stage.ADAPTATION, cluster.estimates, True, ReasonCode.OK, message)
