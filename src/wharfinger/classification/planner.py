"""Whether and how a workload is profiled before it is placed (Quasar 3.4, figure 4).

One joint plan of at most four runs feeds all classifications: the reference, where interference is
injected, and one run each with another configuration, number of servers and platform. They are
chosen by what they leave unknown of the row (``estimators.design``), or at random as published.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from wharfinger.classification.classifier import Classifications
from wharfinger.classification.platforms import platform_column
from wharfinger.classification.utility import Aspect
from wharfinger.core.seams.estimation import Profiling, ProfilingNeeds
from wharfinger.estimators.design import best_column, reduce, variance_design
from wharfinger.estimators.recommender import Recommender
from wharfinger.model.configuration import Configuration, Setting
from wharfinger.model.decisions import Decision, ReasonCode, Stage
from wharfinger.model.interference import SharedResource
from wharfinger.model.platform import MILLICPUS_PER_CPU
from wharfinger.model.profile import (
    PROFILED_SOURCES,
    RAMP_ALLOCATIONS,
    FurtherRun,
    ProfilingPlan,
)
from wharfinger.model.units import cpu_number
from wharfinger.model.view import Request, View
from wharfinger.model.workload import ProfileMode, Workload, WorkloadType

SIZING = ProfilingNeeds()
MAX_RUNS = 4
MAX_SERVERS = 4
"""A plan takes no more: beyond them stand the offline rows (Quasar 3.2)."""
SOURCES_INJECTED = 2
ENTRIES = 2
"""Per classification, as published."""
MIN_MILLICPUS = 250
"""Below this a copy mostly starts up; smaller allocations are filled in."""
SAME_SIZE = 0.2
"""Of what is stated: sizes that differ by less tell the same."""
SHORT = 2.0
"""Times the plan's own seconds: what is to end sooner is not profiled (Paragon 3.5)."""


class JointPlanner:
    """Plans copies; ``made`` says which runs tell most, and has known programs by CPU at least.

    ``sources`` can be injected where the copies run; ``beside`` are known programs to run beside a
    copy; ``needs`` are the placement's.
    """

    name = "joint-profiling"

    def __init__(
        self,
        made: Classifications,
        sources: Sequence[SharedResource] = PROFILED_SOURCES,
        beside: tuple[str, ...] = (),
        needs: ProfilingNeeds = SIZING,
    ) -> None:
        self._made = made
        self._sources = sources
        self._beside = beside
        self._needs = needs

    def plan(self, request: Request, view: View) -> Profiling | None:
        """A plan for a copy where one can and may be made; else it makes a cold start."""
        workload = request.workload
        why_not = _why_no_copy(workload, view) or self._too_short(workload)
        if why_not:
            return Profiling(self._decision(f"{why_not}: a cold start"))
        memory_bytes = workload.reservation.memory_bytes
        room = _room(memory_bytes, view)
        room[list(request.excluded)] = 0
        if self._runs_stated(request, view):
            return self._plan_stated(request, room, view)
        row = int(np.argmax(room)) if room.size else 0
        worth = self._worth(workload.type, row, room, view) if room.size else []
        if not worth:
            return Profiling(self._no_room(view))
        platform = view.platforms[view.platform[row]]
        alike, others = _places(row, worth, np.argsort(-room, kind="stable"), room, view)
        able = min(workload.scale.max_servers, view.capabilities.max_servers_per_workload)
        counts = range(1, min(len(alike), able, MAX_SERVERS) + 1)
        sizes = [Configuration(cpu) for cpu in worth]
        most = {name: int(room[at]) for name, at in others.items()}
        elsewhere = max(1, int(self._needs.idle_share * int(room.sum()) / worth[0]))
        # With one server everyone is a neighbor: whom it bears has to be known before it starts.
        injected = SOURCES_INJECTED if len(view.names) == 1 else self._needs.sources
        possible = Possible(platform, sizes, most, counts, self._sources, elsewhere, injected)
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
        taken = {server for run in further for server in run.servers}
        spare = [at for at in map(view.row, alike[1:]) if view.names[at] not in taken]
        apart = _apart(len(runs[0].sources) + len(chosen) - 2, 2 * chosen[0], spare, room, view)
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

    def _runs_stated(self, request: Request, view: View) -> bool:
        """Whether what is stated is run on several platforms, and not what tells most.

        Where other sizes or several servers may be given, those are run only if nothing is stated,
        or there is nothing to choose.
        """
        workload, needs = request.workload, self._needs
        if needs.sizes == 1 or not needs.stated:
            return needs.stated
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
        chosen = _telling(scale_up, list(others), count, None, own) if count else []
        return tuple(sorted({cpu, *(others[name] for name in chosen)}, reverse=True))

    def _plan_stated(self, request: Request, room: NDArray[np.int64], view: View) -> Profiling:
        """The allocation that is stated, on several platforms side by side (Paragon 2.4)."""
        workload, needs = request.workload, self._needs
        cpu = request.reserved(view.capabilities).cpu_millicpus
        cpu = max(cpu, MIN_MILLICPUS) if view.capabilities.fractional_cpu else cpu
        row = int(_quietest_first(room, view)[0]) if room.size else 0
        if room.size and room[row] < cpu:
            row = int(np.argmax(room))
        if not room.size or room[row] < cpu:
            return Profiling(self._no_room(view, cpu))
        platform = view.platforms[view.platform[row]]
        _, others = _places(row, [cpu], _quietest_first(room, view), room, view)
        most = int(needs.idle_share * int(room.sum()) / cpu) - 1
        made, type_, pair = self._made, workload.type, [Configuration(cpu)]
        across = made.recommender(Aspect.HETEROGENEITY, type_)
        free = {name: int(room[at]) for name, at in others.items()}
        possible = Possible(platform, pair, free, range(1, 2), self._sources)
        settings = _elsewhere(across.matrix.columns, possible, pair) if across else {}
        count, here = min(max(most, 1), len(settings)), _columns_of(Setting(platform, pair[0]))
        chosen = _telling(across, list(settings), count, None, *here) if count else []
        further = [
            FurtherRun(settings[name], (view.names[others[settings[name].platform]],))
            for name in chosen
        ]
        names = [str(source) for source in self._sources]
        tolerated = made.recommender(Aspect.TOLERATED, type_)
        if len(names) > needs.sources:
            names = _telling(tolerated, names, needs.sources, None)
        memory_bytes, sizes = workload.reservation.memory_bytes, self._second(cpu, type_, row, view)
        plan = ProfilingPlan(
            server=view.names[row],
            cpu_millicpus=sizes,
            memory_bytes=self._memory(workload, row, further, view),
            sources=tuple(map(SharedResource, names)),
            seconds=workload.profile.seconds * _share(len(sizes), len(names)),
            tolerance=workload.tolerance,
            further=tuple(further),
            beside=self._beside if _holds_two(cpu, memory_bytes, row, view) else (),
            patience_seconds=workload.profile.seconds,
        )
        return Profiling(self._decision(_described(plan)), plan)

    def _worth(
        self, type_: WorkloadType, row: int, room: NDArray[np.int64], view: View
    ) -> list[int]:
        """Allocations to choose from, ascending, in thousandths of a CPU.

        At most half of the server where possible: the other half is for the injected sources.
        """
        most_millicpus = int(room[row])
        if most_millicpus < MIN_MILLICPUS:
            return []
        whole = not view.capabilities.fractional_cpu
        possible = [
            cpu
            for cpu in self._made.allocations(type_)
            if cpu <= most_millicpus and not (whole and cpu % MILLICPUS_PER_CPU)
        ]
        half = int(view.cpu_capacity[row]) // 2
        for least, most in ((MIN_MILLICPUS, half), (MIN_MILLICPUS, most_millicpus), (0, half)):
            worth = [cpu for cpu in possible if least <= cpu <= most]
            if len(worth) >= ENTRIES:
                return worth
        return possible

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

    def _no_room(self, view: View, cpu_millicpus: int = MIN_MILLICPUS) -> Decision:
        busy = int((view.copies > 0).sum())
        return Decision(
            Stage.PROFILING,
            self.name,
            accepted=False,
            reason=ReasonCode.NO_ROOM if len(view.names) else ReasonCode.NO_SERVERS,
            message=f"no server has {cpu_number(cpu_millicpus)} CPU free for a profiling copy",
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


def _room(memory_bytes: int, view: View) -> NDArray[np.int64]:
    """(S,) CPU that is free for a copy, in thousandths; 0 where none may be made."""
    fits = (view.memory_capacity - view.memory_allocated >= memory_bytes) & (
        view.accepting.astype(np.bool_) & (view.copies == 0) & (view.unsettled == 0)
    )
    return np.where(fits, view.cpu_capacity - view.cpu_allocated, 0)


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


def _why_no_copy(workload: Workload, view: View) -> str:
    """Empty where a copy can and may be made."""
    if workload.best_effort:
        return "best-effort work is never copied"
    if workload.target is None:
        return "it has no target to be sized for"
    if workload.profile.mode is not ProfileMode.COPY:
        return f"its profile mode is {workload.profile.mode}"
    if not view.capabilities.profiles:
        return "this machine has no sandbox for a copy; it is measured as it runs"
    within = workload.target.completion_seconds
    seconds = workload.profile.seconds
    if within is not None and within <= SHORT * seconds:
        return f"it is to end within {within:g} s, and profiling takes {seconds:g} s of that"
    is_service = workload.type is WorkloadType.LATENCY_CRITICAL
    if is_service and workload.measure.load_command is None:
        return "a copy of a service without a load generator would have no requests"
    return ""


# --- the joint plan ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Possible:
    """What can be run now.

    Attributes:
        reference: The platform for all but the run on another: the highest-end one.
        platforms: Others, and how much CPU a run there can have, in thousandths.
        servers: How many of the reference platform may be taken at once, 1 among them.
        elsewhere: On how many other platforms it is run, side by side; published: 1 (Quasar 3.2).
        injected: How many of the sources are, at most; published: 2.
    """

    reference: str
    configurations: Sequence[Configuration]
    platforms: Mapping[str, int] = field(default_factory=dict)
    servers: Sequence[int] = (1,)
    sources: Sequence[SharedResource] = ()
    elsewhere: int = 1
    injected: int = SOURCES_INJECTED


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """One run of a copy; its sources are injected one after the other."""

    setting: Setting
    sources: tuple[SharedResource, ...] = ()


def joint_plan(
    made: Classifications,
    possible: Possible,
    type_: WorkloadType | None = None,
    rng: np.random.Generator | None = None,
) -> tuple[PlannedRun, ...]:
    """At most three runs and those elsewhere, the reference first; empty where nothing can be run.

    ``rng`` chooses at random, as published; ``None`` = by what is left unknown.
    """
    if not possible.configurations:
        return ()
    pair = _pair(made.recommender(Aspect.SCALE_UP, type_), possible.configurations, rng)
    reference = Setting(possible.reference, pair[0])
    sources = possible.sources
    if len(sources) > (most := min(possible.injected, SOURCES_INJECTED)):
        tolerated = made.recommender(Aspect.TOLERATED, type_)
        names = [str(source) for source in sources]
        sources = list(map(SharedResource, _telling(tolerated, names, most, rng))) if most else []
    runs = [PlannedRun(reference, tuple(sources))]
    runs += [PlannedRun(Setting(possible.reference, other)) for other in pair[1:]]
    scale_out = made.recommender(Aspect.SCALE_OUT, type_)
    few = [str(count) for count in possible.servers if 1 < count <= MAX_SERVERS]
    if scale_out is not None:
        for count in _telling(scale_out, few, 1, rng, str(reference.servers)):
            runs.append(PlannedRun(replace(reference, servers=int(count))))
    across = made.recommender(Aspect.HETEROGENEITY, type_)
    if across is not None:
        others = _elsewhere(across.matrix.columns, possible, pair)
        measured = [name for c in pair for name in _columns_of(Setting(possible.reference, c))]
        names = _telling(across, list(others), possible.elsewhere * len(pair), rng, *measured)
        first = dict[str, Setting]()
        for setting in map(others.__getitem__, names):
            first.setdefault(setting.platform, setting)
        runs += map(PlannedRun, list(first.values())[: possible.elsewhere])
    return tuple(runs[: MAX_RUNS - 1 + possible.elsewhere])


def _pair(
    recommender: Recommender | None,
    configurations: Sequence[Configuration],
    rng: np.random.Generator | None,
) -> list[Configuration]:
    """Two configurations; the larger is the reference."""
    by_name = {configuration.name: configuration for configuration in configurations}
    chosen = _telling(recommender, list(by_name), 2, rng) or list(by_name)[:2]
    pair = [by_name[name] for name in chosen]
    return sorted(pair, key=lambda c: (c.cpu_millicpus, c.memory_bytes or 0), reverse=True)


def _elsewhere(
    columns: Sequence[str], possible: Possible, pair: Sequence[Configuration]
) -> dict[str, Setting]:
    """By column, runs on other platforms, with what is measured on the reference, too.

    Any platform that holds such a run: a small one may hold the smaller only.
    """
    others: dict[str, Setting] = {}
    for platform, most in possible.platforms.items():
        for configuration in pair:
            if platform == possible.reference or configuration.cpu_millicpus > most:
                continue
            setting = Setting(platform, configuration)
            column = next((name for name in _columns_of(setting) if name in columns), None)
            if column is not None:
                others.setdefault(column, setting)
    return others


def _columns_of(setting: Setting) -> tuple[str, str]:
    """Of heterogeneity, by allocation or without."""
    platform = setting.platform
    return platform_column(platform, setting.configuration.cpu_millicpus), platform


def _telling(
    recommender: Recommender | None,
    names: Sequence[str],
    count: int,
    rng: np.random.Generator | None,
    *beside: str,
) -> list[str]:
    """The columns that leave least of a row unknown; those ``beside`` are measured in any case."""
    if rng is not None:
        return [names[i] for i in rng.permutation(len(names))[:count]]
    if recommender is None:
        return list(names[:count])
    return list(_least_unknown(recommender, tuple(names), count, beside))


@lru_cache(maxsize=512)
def _least_unknown(
    recommender: Recommender, names: tuple[str, ...], count: int, beside: tuple[str, ...]
) -> tuple[str, ...]:
    """The same; where the cluster is crowded it is asked over and over for those who wait."""
    columns, covariance = recommender.matrix.columns, recommender.predict({}).covariance
    candidates = np.array([columns.index(name) for name in names if name in columns], dtype=np.intp)
    for name in beside:
        if name in columns:
            covariance = reduce(covariance, columns.index(name))
    if not candidates.size:
        return ()
    if count == 1:
        return (columns[best_column(covariance, candidates)],)
    return tuple(columns[j] for j in variance_design(covariance, candidates, count))
