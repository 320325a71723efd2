"""What is learnt from how a workload runs: observations, and when to classify it again.

Pure functions of the records (Quasar 3.2 and 4.1): what runs is measured under each allocation that
it has; where that is off its prediction, or new, it is reclassified.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil, floor, hypot, log

from wharfinger.classification.prediction import change_on
from wharfinger.classification.utility import RUNNING_HALF_LIFE_SECONDS
from wharfinger.classification.utility import corrected as remembered
from wharfinger.core.lifecycle import Phase
from wharfinger.core.state import WorkloadRecord, is_violated
from wharfinger.core.tracking import Observation
from wharfinger.estimators.matrix import Transform
from wharfinger.model.allocation import Placement, cpu_of
from wharfinger.model.performance import PROXIES, Quantity
from wharfinger.model.platform import MILLICPUS_PER_CPU
from wharfinger.model.profile import Classification, Entry, Estimate, Measurements, Origin
from wharfinger.model.units import cpu_number
from wharfinger.model.view import Capabilities, Request, View
from wharfinger.model.workload import ProfileMode
from wharfinger.policies.adaptation.slack import Slack, TargetSettings, cpu_used, is_recent
from wharfinger.policies.placement.resizing import room_for
from wharfinger.policies.placement.several import scale_out

UNLIKE = 0.1
"""Standard deviation of what a workload does on several servers, of the logarithm, over what it
would on so many that are alike."""
OBSERVED = (Quantity.RATE, Quantity.THROUGHPUT, Quantity.LATENCY)


@dataclass(frozen=True, slots=True)
class Learning:
    """What to keep and what to do with it, under these settings."""

    settings: TargetSettings

    def observations(
        self, record: WorkloadRecord, now: float, slowdown: Estimate | None
    ) -> list[Observation]:
        """How it would do without its neighbors under its present, settled allocation."""
        performance, settings = record.performance, self.settings
        if performance is None or record.phase is not Phase.RUNNING:
            return []
        if not Slack(settings).is_settled(record, now):
            return []
        changed = is_recent(record.neighbors_changed_at, now, settings.settling_seconds)
        cpu, out = _cpu_of_each(record), _over_one(record)
        if cpu <= 0 or out is None or (slowdown is not None and changed):
            return []
        count, used = len(record.placements), performance.readings.get(Quantity.CPU)
        is_idle = used is not None and used.value * MILLICPUS_PER_CPU < settings.busy * cpu * count
        error, at = hypot(settings.observation_error, out.std), performance.measured_at
        kept: list[Observation] = []
        for quantity in OBSERVED:
            value = performance.trusted(quantity)
            # A service that is asked little answers little, whatever it could.
            says_nothing = is_idle and quantity is Quantity.THROUGHPUT
            # Of several servers the slowest decides what a service answers, and how late.
            says_nothing |= count > 1 and quantity is not Quantity.RATE
            if value is None or value <= 0 or says_nothing:
                continue
            of_one = Entry(value / out.mean, error, False, Origin.OBSERVED, at)
            seen = _alone(of_one, quantity, slowdown)
            kept.append(self._kept(record, quantity, cpu, seen))
            if quantity is Quantity.LATENCY and cpu_used(record) > 0:
                # A latency tells what could be sustained only with how busy it was then.
                busy = Entry(cpu_used(record), error, False, Origin.OBSERVED, at)
                kept.append(self._kept(record, Quantity.CPU, cpu, busy))
        return kept

    def _kept(
        self, record: WorkloadRecord, quantity: Quantity, cpu: int, new: Entry
    ) -> Observation:
        """One more measurement under an allocation: as the last ones, or a new phase."""
        entries = dict(record.observed.get(quantity, {}))
        old = entries.pop(cpu, None)
        if old is None or abs(log(new.value / old.value)) <= self.settings.min_surprise:
            new = remembered(old, new, Transform.LOG, RUNNING_HALF_LIFE_SECONDS)
        forgets = [*entries, cpu][: -self.settings.max_observed]
        return Observation(quantity, cpu, new, tuple(forgets))

    def measured(self, record: WorkloadRecord, platform: str = "") -> Measurements | None:
        """All that was measured of a workload, before it ran and since; ``None`` = nothing was.

        It ran on that platform; what was seen there is told as where it was profiled.
        """
        if record.observed and record.placements:
            return self.corrected(record, platform)
        return record.measurements

    def corrected(self, record: WorkloadRecord, platform: str) -> Measurements:
        """All that is measured of one that runs: its profiling, moved to its present level.

        A phase or a service's load changes the level of the whole row; its shape stays.
        """
        profiled = record.measurements or Measurements()
        cpu = _cpu_of_each(record)
        performance: dict[Quantity, dict[int, Entry]] = {
            quantity: dict(entries) for quantity, entries in profiled.performance.items()
        }
        further = dict(profiled.further)
        for quantity, seen in record.observed.items():
            entries, classification = dict(seen), record.classification
            if profiled.platform:
                # Its curves may be of another platform than its measurements.
                told_on = profiled.platform
                entries = _as_on(told_on, classification, platform, quantity, seen)
            row = {**performance.get(quantity, {}), **entries}
            curve = classification.curves.get(quantity) if classification else None
            if classification and curve and cpu in entries:
                of_curve = classification.platform
                there = _as_on(of_curve, classification, platform, quantity, {cpu: seen[cpu]})
                level = there[cpu].value / curve.at(cpu).mean
                row = {c: replace(e, value=e.value * level) for c, e in row.items()}
                row[cpu] = entries[cpu]
                further[quantity] = tuple(
                    replace(one, entry=replace(one.entry, value=one.entry.value * level))
                    for one in profiled.further.get(quantity, ())
                )
            for old in list(row)[: -self.settings.max_observed]:
                del row[old]
            performance[quantity] = row
        further = {quantity: runs for quantity, runs in further.items() if runs}
        here = profiled.platform or platform
        return replace(profiled, performance=performance, platform=here, further=further)

    def surprise(
        self,
        record: WorkloadRecord,
        now: float,
        platform: str,
        slowdown: Estimate | None = None,
    ) -> str:
        """Why a running workload should be reclassified; empty = no reason.

        ``slowdown`` is what its neighbors leave it, as predicted, with its doubt.
        """
        classification, settings = record.classification, self.settings
        if classification is None or record.reclassifying or not _learns(record):
            return ""
        if is_recent(record.classified_at, now, settings.reclassification_seconds):
            return ""
        cpu = _cpu_of_each(record)
        profiled = record.measurements.performance if record.measurements else {}
        for quantity, entries in sorted(record.observed.items()):
            if cpu not in entries or quantity in PROXIES:
                continue
            curve, row = classification.curves.get(quantity), profiled.get(quantity, {})
            # On several servers that only tells its level, unless nothing was profiled.
            tells = len(record.placements) == 1 or (len(entries) > 1 and not row)
            if cpu not in row and len(row) < 2 and tells:
                return "it is measured under one allocation more"
            if curve is None:
                continue
            estimate = curve.at(cpu)
            of_curve = classification.platform
            there = _as_on(of_curve, classification, platform, quantity, {cpu: entries[cpu]})
            off = abs(log(there[cpu].value / estimate.mean))
            doubt = hypot(estimate.std, slowdown.std if slowdown else 0.0)
            if off > max(settings.surprise * doubt, settings.min_surprise):
                return f"it runs {off:.0%} off what was predicted for {cpu_number(cpu)} CPU"
        return ""

    def second_allocation(
        self, record: WorkloadRecord, request: Request, view: View
    ) -> tuple[Placement, ...]:
        """For one that was measured under its present allocation only: another, not far off.

        More where there is room, else less by no more than its tolerance; once in a start; else
        empty.
        """
        view = request.seen(view)
        if not view.capabilities.resize or not _learns(record) or record.measurements is None:
            return ()
        if record.reclassifying or record.tracking is None or is_violated(record):
            return ()
        now = _cpu_of_each(record)
        if not all(here.allocation.cpu_millicpus for here in record.placements):
            return ()
        seen = any(now in row for row in record.observed.values())
        if not seen or record.adjusted_at is not None or _measured_under(record) != {now}:
            return ()
        step = 1 if view.capabilities.fractional_cpu else MILLICPUS_PER_CPU
        grown = [
            min(
                round(here.allocation.cpu_millicpus * self.settings.live_step),
                here.allocation.cpu_millicpus + max(0, room_for(request, here, view)),
            )
            // step
            * step
            / here.allocation.cpu_millicpus
            for here in record.placements
        ]
        share = min(grown)
        if share <= 1 + record.workload.tolerance:
            share = 1 - record.workload.tolerance
        after = tuple(_times(here, share, step) for here in record.placements)
        return () if cpu_of(after) == cpu_of(record.placements) else after


def _times(here: Placement, share: float, step: int) -> Placement:
    """With such a share of its CPU, of more not above and of less not below."""
    wanted = round(here.allocation.cpu_millicpus * share, 6)
    cpu = floor(wanted / step) * step if share > 1 else ceil(wanted / step) * step
    return replace(here, allocation=replace(here.allocation, cpu_millicpus=cpu))


def _cpu_of_each(record: WorkloadRecord) -> int:
    """Thousandths of a CPU that it has on each of its servers, in the mean."""
    return cpu_of(record.placements) // max(len(record.placements), 1)


def _over_one(record: WorkloadRecord) -> Estimate | None:
    """Its performance over that on one of its servers, all alike; ``None`` = unknown."""
    count = len(record.placements)
    if count == 1:
        return Estimate(1.0, 0.0)
    able = Capabilities(max_servers_per_workload=count)
    out = scale_out(record.workload, record.classification, able).get(count)
    return out and Estimate(out.mean, hypot(out.std, UNLIKE))


def _alone(seen: Entry, quantity: Quantity, slowdown: Estimate | None) -> Entry:
    """What was seen beside neighbors, without what they take."""
    if slowdown is None:
        return seen
    share = slowdown.mean if quantity is Quantity.LATENCY else 1 / slowdown.mean
    error = hypot(seen.error, slowdown.std)
    return Entry(seen.value * share, error, seen.censored, seen.origin, seen.measured_at)


def _as_on(
    told_on: str,
    classification: Classification | None,
    seen_on: str,
    quantity: Quantity,
    entries: Mapping[int, Entry],
) -> dict[int, Entry]:
    """What was observed on one platform, as it would have been on another, as classified."""
    if classification is None or not classification.platform or quantity in PROXIES:
        return dict(entries)
    known = {classification.platform, *classification.platforms}
    if seen_on == told_on or not {seen_on, told_on} <= known:
        return dict(entries)
    as_there = {}
    for cpu, entry in entries.items():
        faster = change_on(classification, seen_on, cpu).mean
        faster /= change_on(classification, told_on, cpu).mean
        factor = faster if quantity is Quantity.LATENCY else 1 / faster
        as_there[cpu] = replace(entry, value=entry.value * factor)
    return as_there


def _learns(record: WorkloadRecord) -> bool:
    mode = record.workload.profile.mode
    return not record.workload.best_effort and mode is not ProfileMode.NONE


def _measured_under(record: WorkloadRecord) -> set[int]:
    profiled = record.measurements.performance if record.measurements else {}
    return {cpu for rows in (profiled, record.observed) for row in rows.values() for cpu in row}
