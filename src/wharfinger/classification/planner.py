"""Whether and how a workload is profiled before it is placed (Quasar 3.4, figure 4).

One joint plan of at most four runs feeds all classifications: the reference, where interference is
injected, and one run each with another configuration, number of servers and platform. They are
chosen by what they leave unknown of the row (``estimators.design``), or at random as published.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from wharfinger.classification.classifier import Classifications, by_platform
from wharfinger.classification.joint_plan import (
    MAX_SERVERS,
    SOURCES_INJECTED,
    Possible,
    columns_of,
    elsewhere,
    joint_plan,
    telling,
    telling_sources,
)
from wharfinger.classification.utility import Aspect
from wharfinger.classification.worth import (
    SETUP_SECONDS,
    TYPICAL_SECONDS,
    Stake,
    When,
    best_time,
    expected_seconds,
    first_runs,
    missing_runs,
    stake,
)
from wharfinger.core.seams.estimation import ALL, AUTO, Profiling, ProfilingNeeds
from wharfinger.estimators.recommender import Recommender
from wharfinger.model.configuration import Configuration, Setting
from wharfinger.model.decisions import Decision, ReasonCode, Stage
from wharfinger.model.interference import SharedResource
from wharfinger.model.platform import MILLICPUS_PER_CPU
from wharfinger.model.profile import (
    RAMP_ALLOCATIONS,
    FurtherRun,
    Measurements,
    ProfilingPlan,
)
from wharfinger.model.units import cpu_number
from wharfinger.model.view import Request, View
from wharfinger.model.workload import ProfileMode, Workload, WorkloadType

SIZING = ProfilingNeeds()
ENTRIES = 2
"""Per classification, as published."""
ROUNDING_SECONDS = 1e-6
MIN_MILLICPUS = 250
"""Below this a copy mostly starts up; smaller allocations are filled in."""
SAME_SIZE = 0.2
"""Of what is stated: sizes that differ by less tell the same."""
ENOUGH = "enough is known of its program"
SHORT = 2.0
"""Times the plan's own seconds: what is to end sooner is not profiled (Paragon 3.5)."""


class JointPlanner:
    """Plans copies; ``made`` says which runs tell most, and has known programs by CPU at least.

    ``beside`` are known programs to run beside a copy; ``needs`` are the placement's.
    """

    name = "joint-profiling"

    def __init__(
        self,
        made: Classifications,
        beside: tuple[str, ...] = (),
        needs: ProfilingNeeds = SIZING,
    ) -> None:
        self._made = made
        self._beside = beside
        self._needs = needs

    def plan(self, request: Request, view: View) -> Profiling | None:
        """A plan for a copy where one can and may be made; else it makes a cold start."""
        workload, known = request.workload, request.measurements
        stated = self._runs_stated(request, view)
        if stated and known is not None and known.performance:
            return self._complete(request, known, view)
        why_not = _why_no_copy(workload, view, self._needs) or self._too_short(workload)
        why_not = why_not or (_too_large(request, view) if stated else "")
        if why_not:
            wants = workload.target is not None and not workload.best_effort
            if wants and known is not None and known.performance:
                return Profiling(self._decision(ENOUGH), known=True)
            return self._cold_start(why_not)
        memory_bytes, room = workload.reservation.memory_bytes, _room(request, view)
        if workload.best_effort:
            return self._plan_best_effort(request, room, view)
        if stated:
            return self._plan_stated(request, room, view)
        row = int(np.argmax(room)) if room.size else 0
        worth = self._worth(workload.type, row, room, view) if room.size else []
        if not worth:
            is_known = known is not None and bool(known.performance)
            return Profiling(self._no_room(view, is_known=is_known))
        platform = view.platforms[view.platform[row]]
        alike, others = _places(row, worth, np.argsort(-room, kind="stable"), room, view)
        able = min(workload.scale.max_servers, view.capabilities.max_servers_per_workload)
        counts = range(1, min(len(alike), able, MAX_SERVERS) + 1)
        sizes = [Configuration(cpu) for cpu in worth]
        most = {name: int(room[at]) for name, at in others.items()}
        elsewhere = max(1, int(self._needs.idle_share * int(room.sum()) / worth[0]))
        sources, injected = view.capabilities.sources, self._injected(workload, view)
        possible = Possible(
            platform, sizes, most, counts, sources, elsewhere, injected, workload.name
        )
        runs = joint_plan(self._made, possible, workload.type)
        own, further = list[Setting](), list[FurtherRun]()
        for setting in (run.setting for run in runs):
            if setting.servers > 1:
                further.append(FurtherRun(setting, alike[: setting.servers]))
            elif setting.platform != platform:
                further.append(FurtherRun(setting, (view.names[others[setting.platform]],)))
            else:
                own.append(setting)
        chosen = [setting.configuration.cpu_millicpus for setting in own]
        chosen[1:1] = self._largest(workload, chosen[0], row, room, view)
        taken = {server for run in further for server in run.servers}
        spare = [at for at in map(view.row, alike[1:]) if view.names[at] not in taken]
        most_apart = max(2 * chosen[0], *chosen)
        apart = _apart(len(runs[0].sources) + len(chosen) - 2, most_apart, spare, room, view)
        plan = ProfilingPlan(
            server=view.names[row],
            cpu_millicpus=tuple(chosen),
            memory_bytes=self._memory(workload, row, further, view),
            sources=runs[0].sources,
            seconds=workload.profile.seconds * _share(len(chosen), len(runs[0].sources)),
            tolerance=workload.tolerance,
            further=tuple(further),
            beside=self._beside if _holds_two(chosen[0], memory_bytes, row, view) else (),
            apart=apart,
            patience_seconds=workload.profile.seconds,
        )
        return Profiling(self._decision(_described(plan)), plan)

    def _too_short(self, workload: Workload) -> str:
        expected, short = workload.expected_seconds, self._needs.short_seconds
        if expected is None or expected >= short:
            return ""
        return f"it is expected to run for {expected:g} s, less than {short:g} s"

    def _injected(self, workload: Workload, view: View) -> int:
        """How many sources are: with one server everyone is a neighbor, whatever that costs.

        The time of the ramps delays no end of a service, and where residents share cores it has
        all of them for neighbors in a moment.
        """
        if len(view.names) == 1:
            return SOURCES_INJECTED
        needs, is_service = self._needs, workload.type is WorkloadType.LATENCY_CRITICAL
        if is_service and view.capabilities.shares_cores:
            return max(needs.sources, needs.service_sources)
        return needs.sources

    def _may_start(self, workload: Workload, view: View) -> bool:
        """Whether it may start before its profile: time counts for it, and CPU is not scarce.

        With one platform there is no choice that runs could tell of: they are made to predict.
        """
        most = self._needs.start_first * int(view.cpu_capacity.sum())
        has_end = workload.type is not WorkloadType.LATENCY_CRITICAL and not workload.best_effort
        may_be_late = has_end and workload.target is not None
        several = len(view.platforms) > 1
        return may_be_late and several and most > 0 and int(view.cpu_allocated.sum()) <= most

    def _runs_stated(self, request: Request, view: View) -> bool:
        """Whether what is stated is run on several platforms, and not what tells most.

        Where other sizes or several servers may be given, those are run only if nothing is stated,
        or there is nothing to choose.
        """
        workload, needs = request.workload, self._needs
        if needs.sizes == 1 or not needs.stated:
            return needs.stated
        if workload.best_effort and needs.best_effort:
            return True
        able = min(workload.scale.max_servers, view.capabilities.max_servers_per_workload)
        return able == 1 and len(view.names) > 1 and not workload.reservation.elastic_cpu

    def _second(self, cpu: int, type_: WorkloadType, row: int, view: View) -> tuple[int, ...]:
        """What else is run where what is stated is run first, the larger first."""
        room = view.cpu_capacity - view.cpu_allocated
        others = {
            Configuration(size).name: size
            for size in self._worth(type_, row, room, view)
            if abs(size - cpu) > SAME_SIZE * cpu
        }
        scale_up = self._made.recommender(Aspect.SCALE_UP, type_)
        count, own = self._needs.sizes - 1, Configuration(cpu).name
        chosen = telling(scale_up, list(others), count, None, own) if count else []
        return tuple(sorted({cpu, *(others[name] for name in chosen)}, reverse=True))

    def beside(self, request: Request, view: View) -> Profiling | None:
        """Copies of what starts without a profile, where there is room for them."""
        profiling = self._plan_stated(request, _room(request, view), view, begun=True)
        if profiling.plan is None:
            return None
        message = f"beside its own run: {profiling.decision.message}"
        return replace(profiling, decision=self._decision(message))

    def _plan_stated(
        self, request: Request, room: NDArray[np.int64], view: View, *, begun: bool = False
    ) -> Profiling:
        """The allocation that is stated, on several platforms side by side (Paragon 2.4).

        ``begun`` = the workload runs already.
        """
        workload, needs, cpu = request.workload, self._needs, _stated_cpu(request, view)
        row = int(_quietest_first(room, view)[0]) if room.size else 0
        if room.size and room[row] < cpu:
            row = int(np.argmax(room))
        again_at = self._accepts_less_at(request)
        if room.size and room[row] < cpu and again_at == request.now:
            # It may get less, so that a copy with less tells of it, too.
            step = MIN_MILLICPUS if view.capabilities.fractional_cpu else MILLICPUS_PER_CPU
            free = self._possible(workload.type, int(room[row]), view)
            cpu, again_at = min(cpu, max([step, *free])), None
        if not room.size or room[row] < cpu:
            return Profiling(self._no_room(view, cpu), again_at=again_at)
        here = view.platforms[view.platform[row]]
        tolerated = self._made.recommender(Aspect.TOLERATED, workload.type)
        most, able = self._injected(workload, view), view.capabilities.sources
        injected = telling_sources(tolerated, able, most, workload.name)
        sizes = self._second(cpu, workload.type, row, view)
        apart = _second_apart(sizes, row, room, view) if not injected else ()
        across = self._made.recommender(Aspect.HETEROGENEITY, workload.type)
        others = _runs_elsewhere(across, here, cpu, room, view)
        most = max(int(needs.idle_share * int(room.sum()) / cpu) - 1 - len(apart), 1)
        most = min(most, len(others))
        measured = columns_of(Setting(here, Configuration(cpu)))
        column = next((c for c in measured if across and c in across.matrix.columns), None)
        may_start = not (injected or begun) and self._may_start(workload, view)
        if needs.probes not in (ALL, AUTO):
            most = min(most, int(needs.probes))
        chosen = telling(across, list(others), most, None, *measured) if most else []
        if across and column and (may_start or needs.probes == AUTO):
            seconds = workload.profile.seconds * _share(len(sizes), len(injected))
            at_stake = stake(request, None, seconds, cpu, int(room.sum()), view)
            if not needs.beside:
                at_stake = replace(at_stake, moved=None)
            given = across, _holding(across, cpu, view), column, tuple(others)
            if needs.probes == AUTO:
                chosen = first_runs(*given, most, at_stake)
            when = best_time(*given, chosen, at_stake) if may_start else When.BEFORE
            if when is not When.BEFORE:
                beside = ", its copies run beside it" if when is When.BESIDE else ""
                told = self._decision(f"{_late(at_stake)}: a cold start{beside}")
                return Profiling(told, beside=when is When.BESIDE)
        plan = self._stated(workload, row, sizes, [others[c] for c in chosen], injected, view)
        plan = replace(plan, apart=apart)
        return Profiling(self._decision(_described(plan)), plan)

    def _accepts_less_at(self, request: Request, least_seconds: float = 0.0) -> float | None:
        """When less room than that of what it states will do; now = it does; ``None`` = never."""
        patience = self._needs.patience_seconds
        if patience is None:
            return None
        left = max(patience, least_seconds) - request.waited_seconds
        return request.now + left if left > ROUNDING_SECONDS else request.now

    def _complete(self, request: Request, known: Measurements, view: View) -> Profiling:
        """What is missing of what is known of its program, where that repays its runs."""
        workload, cpu, room = request.workload, _stated_cpu(request, view), _room(request, view)
        enough = Profiling(self._decision(ENOUGH), known=True)
        why_not = _why_no_copy(workload, view, self._needs) or self._too_short(workload)
        if workload.best_effort or why_not or _too_large(request, view):
            return enough
        if not room.size or int(room.max()) < cpu:
            # Where CPU is that short it is not placed before those that are profiled first.
            runs = expected_seconds(workload, known) or TYPICAL_SECONDS
            again_at = self._accepts_less_at(request, runs)
            if again_at == request.now:
                return enough
            return Profiling(self._no_room(view, cpu, is_known=True), again_at=again_at)
        across = self._made.recommender(Aspect.HETEROGENEITY, workload.type)
        if across is None or known.platform not in across.matrix.columns:
            return enough
        entries, holding = by_platform(known), _holding(across, cpu, view)
        if all(cpu not in row for row in known.performance.values()):
            return enough
        missing = _runs_elsewhere(across, known.platform, cpu, room, view)
        missing = {column: run for column, run in missing.items() if column not in entries}
        most = min(len(missing), int(self._needs.idle_share * int(room.sum()) / cpu))
        if most < 1:
            return enough
        seconds = workload.profile.seconds * _share(1, 0)
        at_stake = stake(request, known, seconds, cpu, int(room.sum()), view)
        chosen = missing_runs(across, holding, entries, list(missing), most, at_stake)
        if not chosen:
            return enough
        first, *others = (missing[column] for column in chosen)
        plan = self._stated(workload, view.row(first.servers[0]), (cpu,), others, (), view)
        plan = replace(plan, beside=(), completes=True)
        message = f"of its program {len(entries)} platforms are known: {_described(plan)}"
        return Profiling(self._decision(message), plan)

    def _plan_best_effort(self, request: Request, room: NDArray[np.int64], view: View) -> Profiling:
        """The CPU that it states on several platforms, on servers where no CPU is allocated.

        It waits for no room, and not for longer than its tolerance of what it should take.
        """
        workload, cpu = request.workload, _stated_cpu(request, view)
        room = np.where(view.cpu_allocated > 0, 0, room)
        row = next((at for at in _quietest_first(room, view).tolist() if room[at] >= cpu), None)
        if row is None:
            return self._cold_start(f"no server without allocated CPU has {cpu_number(cpu)} CPU")
        seconds = workload.profile.seconds * _share(1, 0)
        expected = expected_seconds(workload, None)
        if expected is not None and SETUP_SECONDS + seconds > workload.tolerance * expected:
            return self._cold_start(f"profiling takes {seconds:g} s of some {expected:.3g}")
        across = self._made.recommender(Aspect.HETEROGENEITY, workload.type)
        here = view.platforms[view.platform[row]]
        others = _runs_elsewhere(across, here, cpu, room, view)
        most = min(int(self._needs.idle_share * int(room.sum()) / cpu) - 1, len(others))
        measured = columns_of(Setting(here, Configuration(cpu)))
        chosen = telling(across, list(others), most, None, *measured) if most > 0 else []
        if not chosen:
            return self._cold_start("no other platform has idle CPU to compare with")
        plan = self._stated(workload, row, (cpu,), [others[c] for c in chosen], (), view)
        plan = replace(plan, beside=())
        return Profiling(self._decision(_described(plan)), plan)

    def _cold_start(self, why: str) -> Profiling:
        return Profiling(self._decision(f"{why}: a cold start"))

    def _stated(
        self,
        workload: Workload,
        row: int,
        sizes: tuple[int, ...],
        further: Sequence[FurtherRun],
        sources: tuple[SharedResource, ...],
        view: View,
    ) -> ProfilingPlan:
        """These allocations at the row, the largest first, and elsewhere at the same time."""
        beside = _holds_two(sizes[0], workload.reservation.memory_bytes, row, view)
        return ProfilingPlan(
            server=view.names[row],
            cpu_millicpus=sizes,
            memory_bytes=self._memory(workload, row, further, view),
            sources=sources,
            seconds=workload.profile.seconds * _share(len(sizes), len(sources)),
            tolerance=workload.tolerance,
            further=tuple(further),
            beside=self._beside if beside else (),
            patience_seconds=workload.profile.seconds,
        )

    def _worth(
        self, type_: WorkloadType, row: int, room: NDArray[np.int64], view: View
    ) -> list[int]:
        """Allocations to choose from, ascending, in thousandths of a CPU.

        At most half of the server where possible: the other half is for the injected sources.
        """
        most_millicpus = int(room[row])
        if most_millicpus < MIN_MILLICPUS:
            return []
        possible = self._possible(type_, most_millicpus, view)
        half = int(view.cpu_capacity[row]) // 2
        for least, most in ((MIN_MILLICPUS, half), (MIN_MILLICPUS, most_millicpus), (0, half)):
            worth = [cpu for cpu in possible if least <= cpu <= most]
            if len(worth) >= ENTRIES:
                return worth
        return possible

    def _possible(self, type_: WorkloadType, most_millicpus: int, view: View) -> list[int]:
        """Allocations that are measured of known programs and fit, in thousandths of a CPU."""
        whole = not view.capabilities.fractional_cpu
        return [
            cpu
            for cpu in self._made.allocations(type_)
            if cpu <= most_millicpus and not (whole and cpu % MILLICPUS_PER_CPU)
        ]

    def _largest(
        self, workload: Workload, reference: int, row: int, room: NDArray[np.int64], view: View
    ) -> list[int]:
        """What else is measured where no CPU is stated: all that is free, if that is clearly more.

        Not on a cluster's one server beside residents: they could not grow while it runs.
        """
        if not workload.reservation.elastic_cpu or (len(view.names) == 1 and view.residents[row]):
            return []
        step = 1 if view.capabilities.fractional_cpu else MILLICPUS_PER_CPU
        largest = int(room[row]) // step * step
        return [largest] if largest > (1 + SAME_SIZE) * reference else []

    def _memory(
        self, workload: Workload, row: int, further: Sequence[FurtherRun], view: View
    ) -> int:
        """What a copy may take: where nobody stated it, half of a server if so much is free."""
        reservation = workload.reservation
        if not reservation.elastic_memory or self._beside:
            return reservation.memory_bytes
        rows = [row, *(view.row(server) for run in further for server in run.servers)]
        free = min(int(view.memory_capacity[at] - view.memory_allocated[at]) for at in rows)
        half = min(int(view.memory_capacity[at]) for at in rows) // 2
        return max(reservation.memory_bytes, min(free, half))

    def _decision(self, message: str) -> Decision:
        return Decision(Stage.PROFILING, self.name, True, ReasonCode.OK, message)

    def _no_room(
        self, view: View, cpu_millicpus: int = MIN_MILLICPUS, *, is_known: bool = False
    ) -> Decision:
        busy = int((view.copies > 0).sum())
        what = " for a profiling copy"
        if is_known:
            what = ": its program is known, and it waits with those that are profiled first"
        return Decision(
            Stage.PROFILING,
            self.name,
            accepted=False,
            reason=ReasonCode.NO_ROOM if len(view.names) else ReasonCode.NO_SERVERS,
            message=f"no server has {cpu_number(cpu_millicpus)} CPU free{what}",
            would_change=f"room on a server on which no other copy runs ({busy} run now)",
            considered=len(view.names),
            numbers={"copies": float(busy), "cpu_needed_millicpus": float(cpu_millicpus)},
        )


def _share(allocations: int, sources: int) -> float:
    """Of a joint plan's seconds, what so many of its runs take; others go beside the first."""
    of_all = ENTRIES + RAMP_ALLOCATIONS * SOURCES_INJECTED
    return min(1.0, (allocations + RAMP_ALLOCATIONS * sources) / of_all)


def _places(
    row: int,
    worth: Sequence[int],
    order: NDArray[np.intp],
    room: NDArray[np.int64],
    view: View,
) -> tuple[tuple[str, ...], dict[str, int]]:
    """Servers of the platform at ``row``, itself first; of each platform the first row in order.

    The first hold the largest of the allocations ``worth`` a run, the second one of them at least.
    """
    here = view.platform[row]
    free = order[room[order] >= worth[0]]
    same = free[(view.platform[free] == here) & (room[free] >= worth[-1]) & (free != row)]
    others: dict[str, int] = {}
    for at in free.tolist():
        others.setdefault(view.platforms[view.platform[at]], at)
    return tuple(view.names[at] for at in (row, *same.tolist())), others


def _quietest_first(room: NDArray[np.int64], view: View) -> NDArray[np.intp]:
    """Rows, those without residents first, then those with most room: residents slow a copy."""
    return np.lexsort((-room, view.residents > 0))


def _apart(
    count: int, cpu_millicpus: int, rows: Sequence[int], room: NDArray[np.int64], view: View
) -> tuple[str, ...]:
    """Servers for so many runs at once (Quasar 3.4), where a source has as much as the copy."""
    if not view.capabilities.profiles_apart:
        return ()
    return tuple(view.names[at] for at in rows if room[at] >= cpu_millicpus)[: max(0, count)]


def _second_apart(
    sizes: Sequence[int], row: int, room: NDArray[np.int64], view: View
) -> tuple[str, ...]:
    """Servers of the platform at ``row`` where all sizes but the first run at the same time."""
    alike = _quietest_first(room, view)
    alike = alike[(view.platform[alike] == view.platform[row]) & (alike != row)]
    return _apart(len(sizes) - 1, max(sizes[1:], default=0), alike.tolist(), room, view)


def _room(request: Request, view: View) -> NDArray[np.int64]:
    """(S,) CPU that is free for a copy, in thousandths; 0 where none may be made."""
    free = view.memory_capacity - view.memory_allocated
    fits = (free >= request.workload.reservation.memory_bytes) & (
        view.accepting.astype(np.bool_) & (view.copies == 0) & (view.unsettled == 0)
    )
    room = np.where(fits, np.maximum(view.cpu_capacity - view.cpu_allocated, 0), 0)
    room[list(request.excluded)] = 0
    return room


def _stated_cpu(request: Request, view: View) -> int:
    """Thousandths of a CPU that a copy of what is stated gets, as if it were promised that."""
    workload = request.workload
    if workload.best_effort:
        request = replace(request, workload=replace(workload, type=WorkloadType.BATCH))
    cpu = request.reserved(view.capabilities).cpu_millicpus
    return max(cpu, MIN_MILLICPUS) if view.capabilities.fractional_cpu else cpu


def _too_large(request: Request, view: View) -> str:
    """Empty where a server has what is stated, or there is no server: a copy could be made."""
    cpu = _stated_cpu(request, view)
    if not len(view.names) or int(view.cpu_capacity.max()) >= cpu:
        return ""
    return f"no server has {cpu_number(cpu)} CPU, even when empty"


def _holding(across: Recommender, cpu: int, view: View) -> tuple[str, ...]:
    """Columns of the platforms that hold such an allocation, were they empty."""
    large = np.unique(view.platform[(view.accepting > 0) & (view.cpu_capacity >= cpu)])
    settings = (Setting(view.platforms[at], Configuration(cpu)) for at in large.tolist())
    names = (columns_of(setting) for setting in settings)
    return tuple(c for pair in names for c in pair if c in across.matrix.columns)


def _runs_elsewhere(
    across: Recommender | None, here: str, cpu: int, room: NDArray[np.int64], view: View
) -> dict[str, FurtherRun]:
    """By column, a run with the allocation on each other platform that has room for it."""
    order, one = _quietest_first(room, view), [Configuration(cpu)]
    first: dict[str, int] = {}
    for at in order[room[order] >= cpu].tolist():
        first.setdefault(view.platforms[view.platform[at]], at)
    possible = Possible(here, one, {name: int(room[at]) for name, at in first.items()})
    settings = elsewhere(across.matrix.columns, possible, one) if across else {}
    return {
        column: FurtherRun(setting, (view.names[first[setting.platform]],))
        for column, setting in settings.items()
    }


def _late(at_stake: Stake) -> str:
    median = sorted(at_stake.likely)[len(at_stake.likely) // 2] * at_stake.expected_seconds
    takes = f"profiling takes {at_stake.seconds:g} s of some {median:.3g}"
    return f"{takes}, which costs its target more than it tells"


def _holds_two(cpu_millicpus: int, memory_bytes: int, row: int, view: View) -> bool:
    cpu_free = view.cpu_capacity[row] - view.cpu_allocated[row]
    memory_free = view.memory_capacity[row] - view.memory_allocated[row]
    return bool(cpu_free >= 2 * cpu_millicpus and memory_free >= 2 * memory_bytes)


def _described(plan: ProfilingPlan) -> str:
    allocations = " and ".join(map(cpu_number, plan.cpu_millicpus))
    seconds = f"{plan.seconds:g} s"
    if plan.limit_seconds > plan.seconds:
        seconds += f" ({plan.limit_seconds:g} s if it seldom tells its performance)"
    message = f"a copy runs for {seconds} on {plan.server} with {allocations} CPU"
    if beside := [*plan.sources, *plan.beside]:
        message += f", beside {' and '.join(beside)}"
    if plan.apart:
        message += f"; at once on {', '.join(plan.apart)}"
    for run in plan.further:
        cpu = cpu_number(run.setting.configuration.cpu_millicpus)
        message += f"; one on {', '.join(run.servers)} with {cpu} CPU"
    return message


def _why_no_copy(workload: Workload, view: View, needs: ProfilingNeeds) -> str:
    """Empty where a copy can and may be made."""
    if workload.best_effort and not needs.best_effort:
        return "this policy does not copy best-effort work"
    if workload.best_effort and len(view.platforms) < 2:
        return "best-effort work is copied to compare platforms, of which there is one"
    if workload.target is None and not workload.best_effort:
        return "it has no target to be sized for"
    if workload.profile.mode is not ProfileMode.COPY:
        return f"its profile mode is {workload.profile.mode}"
    if not view.capabilities.profiles:
        return "this machine has no sandbox for a copy; it is measured as it runs"
    within = workload.target.completion_seconds if workload.target else None
    seconds = workload.profile.seconds
    if within is not None and within <= SHORT * seconds:
        return f"it is to end within {within:g} s, and profiling takes {seconds:g} s of that"
    is_service = workload.type is WorkloadType.LATENCY_CRITICAL
    if is_service and workload.measure.load_command is None:
        return "a copy of a service without a load generator would have no requests"
    return ""
