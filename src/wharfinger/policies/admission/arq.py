"""ARQ: workloads wait in classes by the resource quality that they need, no longer than they may.

Source: ARQ 3; Paragon (TOCS) 4; dissertation 6.3. What is open there is decided in decision record
0062. A workload waits for a server of its class or a higher one; before its slack is gone it is
diverted to lower classes, and at its end it may take any server.
"""

import json
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from itertools import repeat
from math import inf
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wharfinger.classification.worth import SETUP_SECONDS, TYPICAL_SECONDS, expected_seconds
from wharfinger.core.seams.admission import AdmissionView, QueueReport, Servers, ServerSets
from wharfinger.core.seams.contention import Array
from wharfinger.core.seams.verdicts import Admit, Divert
from wharfinger.errors import InvalidInput
from wharfinger.model.allocation import Allocation
from wharfinger.model.decisions import Decision, ReasonCode, Refuse, Stage
from wharfinger.model.queue_accounts import DEMAND, QueueAccount
from wharfinger.model.view import Request, View
from wharfinger.model.workload import DEFAULT_TOLERANCE, Run, Workload, WorkloadType
from wharfinger.native import OrderedRows, Releases, replaced, switch_after
from wharfinger.policies.admission.busy_periods import (
    FEW,
    BusyFamily,
    BusyPeriods,
    fitted,
    lasting,
)
from wharfinger.policies.admission.fifo import BEST_EFFORT, Fifo, FifoSettings
from wharfinger.policies.admission.platforms import suitable_platforms
from wharfinger.policies.admission.quality import (
    QualityMeasure,
    Ranges,
    class_of,
    demand,
    edges,
    has_scores,
    qualities,
)
from wharfinger.policies.admission.slack import (
    LEAST_WAIT,
    WaitingSlack,
    in_tenths,
    waiting_slack,
    without_wait,
)
from wharfinger.policies.admission.stability import QueueLoad, load_factors
from wharfinger.policies.admission.switching import Objective
from wharfinger.policies.admission.waits import (
    GIVES,
    TAKEN,
    TakenServers,
    server_rooms,
    tiers_by_quality,
    with_room,
)

ANY = "any"
"""The queue of those that may take any server: they have no slack to wait."""
LATE = "late"
"""The queue of those whose slack is over: their targets are lost, or nearly so."""
MOST_QUEUES = 100
GRID = 72
"""Times for which a queue's report looks at the wait."""
AGES = 16
"""So many busy servers of a queue are looked at, each for as many of them."""
GROWTH = 1.25
"""A distribution is fitted again when there were so many times as many busy periods, ..."""
LEAST_NEW = 20
"""... and no fewer than so many more, ..."""
REPLACED = 0.5
"""... or so many of those that are kept have been replaced."""
NEXT = np.array([0.1, 0.5, 0.9])
"""Probabilities for which the wait of the next is told."""
_NEXT_REQUEST = Request(Workload("", WorkloadType.BATCH, Run(())))
"""The next that comes, of the usual priority, after all that are there."""


class Higher(StrEnum):
    """When a workload may take servers of a higher class than its own."""

    ALWAYS = "always"
    """They are as good as its own: it only waits so that it need not take a lower one."""
    EMPTY = "empty"
    """Where none of its own has room, and as far as nobody waits in the higher queues: as published
    (TOCS 4.2)."""


class Platforms(StrEnum):
    """Which platforms one that waits in a class takes."""

    SUITABLE = "suitable"
    """Those on which its target is not much less likely kept than on the best (``platforms``)."""
    ANY = "any"
    """All: as published, by quality alone."""


class Late(StrEnum):
    """When those are served whose slack is over."""

    LAST = "last"
    """After those that can still keep their targets, until they have waited for as long as they
    run: from then on first."""
    FIRST = "first"


class ServiceOrder(StrEnum):
    """Who is served first in a class."""

    ARRIVAL = "arrival"
    SHORTEST = "shortest"
    """The shortest by what it is expected to take (TOCS 4.4), until its slack is over; so are they
    profiled."""


@dataclass(frozen=True, slots=True)
class ArqSettings(FifoSettings):
    """Settings of ``arq``.

    Attributes:
        max_waiting: Most workloads that wait, in all queues together.
        backfill: How many behind a blocked one are tried ahead of it in a step; 0 = none.
        queues: How many classes; 1 = one queue that waits for nothing but room.
        ranges: How the range of qualities is divided: ``equal`` or ``quantile``.
        quality: What counts: ``both``, or ``caused`` interference alone.
        objective: What the time of a switch maximizes: ``expected`` quality, or ``max``.
        order: Who is served first in a class: by ``arrival``, or the ``shortest``.
        higher: When a workload may take servers of a higher class: ``always``, or only where that
            queue is ``empty`` (published).
        platforms: Which platforms one that waits in a class takes: ``suitable`` ones, or ``any``
            (published, and the default under ``quasar``).
        late: When those are served whose slack is over: ``last``, or ``first`` (published). One
            whose priority is above 0 is never served last.
    """

    queues: int = 10
    ranges: Ranges = Ranges.EQUAL
    quality: QualityMeasure = QualityMeasure.BOTH
    objective: Objective = Objective.EXPECTED
    order: ServiceOrder = ServiceOrder.ARRIVAL
    higher: Higher = Higher.ALWAYS
    platforms: Platforms = Platforms.SUITABLE
    late: Late = Late.LAST


class Arq(Fifo):
    """Queues by resource quality, each with its pool of servers."""

    name = "arq"

    def __init__(self, settings: ArqSettings | None = None) -> None:
        self.settings: ArqSettings = settings or ArqSettings()
        count = self.settings.queues
        if not 1 <= count <= MOST_QUEUES:
            mend = f"give a number from 1 to {MOST_QUEUES}, e.g. {ArqSettings().queues}"
            raise InvalidInput(f"arq[queues={count}]: {mend}; 1 = one queue")
        self._classes = tuple(f"class-{at}" for at in range(1, count + 1)) if count > 1 else ()
        self._equal: list[float] = edges(count, Ranges.EQUAL, np.zeros(0)).tolist()
        self._ordered = OrderedRows()
        self._at = {name: at for at, name in enumerate(self._classes)}
        self._puts_last = bool(self._classes) and self.settings.late is Late.LAST
        late = (LATE,) if self._puts_last else ()
        self.queues = (ANY, *reversed(self._classes), *late, BEST_EFFORT)
        self._takes_better = self.settings.objective is Objective.MAX
        self._takes_higher = self.settings.higher is Higher.ALWAYS
        self._serves_shortest = self.settings.order is ServiceOrder.SHORTEST
        self._takes_platforms = self.settings.platforms is Platforms.ANY
        self._has_equal_ranges = self.settings.ranges is Ranges.EQUAL
        self._ahead = tuple(self.queues[: count - at] for at in range(count))
        # The lowest stands for one below it, to which nothing turns.
        self._with_lower = tuple(
            zip(self._classes, self._classes[:1] + self._classes, strict=False)
        )

    # --- entry ------------------------------------------------------------------------------

    def admit(self, request: Request, view: AdmissionView) -> Admit | Refuse:
        """As many as ``fifo``; the shortest are profiled first, where they are served first.

        One that comes later goes ahead if it is shorter by more than that: none is passed for ever.
        What can't be kept is told.
        """
        verdict = super().admit(request, view)
        if isinstance(verdict, Refuse):
            return verdict
        reason, why = self._not_kept(request, view) if self._classes else (ReasonCode.OK, "")
        if why and verdict.decision is not None:
            message = f"{why}; {verdict.decision.message}"
            verdict = replace(
                verdict, decision=replace(verdict.decision, reason=reason, message=message)
            )
        if not self._serves_shortest:
            return verdict
        # As stated: what others take changes as they end, and would reorder those that say nothing.
        expected = expected_seconds(request.workload, None)
        return replace(verdict, rank=view.now + (TYPICAL_SECONDS if expected is None else expected))

    def _not_kept(self, request: Request, view: AdmissionView) -> tuple[ReasonCode, str]:
        """What of its target, or of how it may wait, is known at once not to be kept."""
        workload = request.workload
        states_wait = workload.waiting_seconds is not None
        has_end = workload.type is not WorkloadType.LATENCY_CRITICAL and workload.target is not None
        if workload.best_effort or not (states_wait or has_end) or not has_scores(view.cluster):
            return ReasonCode.OK, ""
        known = replace(request, measurements=view.known(request))
        slack = bound = self._slack(known, view)
        if states_wait and has_end:  # How long it may wait does not say whether it can be in time.
            bound = self._slack(replace(known, workload=without_wait(workload)), view)
        if bound.is_lost:
            return ReasonCode.WILL_MISS, f"its target can't be kept: {bound.why()}"
        limit, most = slack.limit_seconds, SETUP_SECONDS + workload.profile.seconds
        # One that may not wait at all asks for nothing that a profile could take from it.
        if not limit or limit >= most or not (profile := view.profile_seconds(request)):
            return ReasonCode.OK, ""
        profile += SETUP_SECONDS
        if limit >= profile:
            return ReasonCode.OK, ""
        told = f"{slack.why()}, and its profile takes {in_tenths(profile)}"
        return ReasonCode.NO_SLACK, f"{told}: then it takes any server, without waiting for quality"

    def enqueue(self, request: Request, view: AdmissionView) -> Admit:
        """Its class, or the queue of those that may take any server."""
        if request.workload.best_effort:
            return Admit(queue=BEST_EFFORT)
        slack = self._slack(request, view)
        between = self._classes_begin(view) if self._classes else None
        classification = request.classification
        if between is None or classification is None:
            numbers = {"slack_seconds": slack.left_seconds}
            message = "it may take any server at once: no scores"
            return Admit(self._decision(message, numbers), ANY)
        if slack.left_seconds <= LEAST_WAIT:
            why = slack.why()
            why = f"its target can't be kept: {why}" if slack.is_lost else why
            queue, review_at, told = self._without_slack(request, slack, view, "at once", why)
            return Admit(told, queue, review_at)
        needs = demand(classification, self.settings.quality)
        at = bisect_right(between, needs)
        queue, rank = self._classes[at], self._rank(slack)
        message = f"class {at + 1} of {len(self._classes)}: it needs {needs:.0%} of a server"
        place = self._place_in(at, request, rank, view)
        told, review_at = self._waiting(request, place, slack, view, message, {DEMAND: needs})
        return replaced(_WAITS_IN, decision=told, queue=queue, review_at=review_at, rank=rank)

    def review(self, request: Request, queue: str, view: AdmissionView) -> Divert | None:
        """To the class below at its time; at the end of its slack it may take any server."""
        at = self._at.get(queue)
        if at is None:
            return self._served_first(request) if queue == LATE else None
        slack = self._slack(request, view)
        if at == 0 or slack.left_seconds <= LEAST_WAIT:
            to, review_at, told = self._without_slack(request, slack, view, "now", slack.why())
            return Divert(to, told, review_at)
        name, rank = self._classes[at - 1], self._rank(slack)
        message = f"no server of {queue} has come free in time: from now on it waits in {name}"
        # It is one of those that wait in the queue that it leaves.
        place = self._place_in(at - 1, request, rank, view, leaves=1)
        told, review_at = self._waiting(request, place, slack, view, message, {})
        return Divert(name, told, review_at, rank)

    def _without_slack(
        self, request: Request, slack: WaitingSlack, view: AdmissionView, when: str, why: str
    ) -> tuple[str, float | None, Decision]:
        """The queue of one that has no slack left, when it is reviewed there, and what is told.

        It is put last where its target is lost. Where its user says how long it may wait, it need
        not be; where nothing says how long, every wait may lose it.
        """
        workload, queue, review_at = request.workload, ANY, None
        bounded = slack.limit_seconds is not None and workload.waiting_seconds is None
        passed = slack.expected_seconds or TYPICAL_SECONDS
        out_of_reach = bounded and slack.spare_seconds <= LEAST_WAIT
        waits_on = workload.priority <= 0 and slack.waited_seconds < passed
        if self._puts_last and out_of_reach and waits_on and not request.restarted:
            queue, review_at = LATE, view.now + passed - slack.waited_seconds
            when = "after those that can still keep their targets"
        message = f"it may take any server {when}: {why}"
        return queue, review_at, self._decision(message, {"slack_seconds": slack.left_seconds})

    def _served_first(self, request: Request) -> Divert:
        """Of one that has been served last for as long as it runs."""
        waited = in_tenths(request.waited_seconds)
        message = f"it is not put last any more: it has waited for {waited}, as long as it runs"
        return Divert(ANY, self._decision(message, {}))

    def _rank(self, slack: WaitingSlack) -> float:
        return (slack.expected_seconds or 0.0) if self._serves_shortest else 0.0

    def _place_in(
        self, at: int, request: Request, rank: float, view: AdmissionView, leaves: int = 0
    ) -> "_Place":
        """Where in its class one comes; ``leaves`` = 1 where it waits in one served before that."""
        workload, waiting = request.workload, view.waiting
        served_before, names = view.positions or view.before, self._with_lower[at]
        before, lower = served_before(names, workload.priority, rank, workload.name)
        ahead = sum(map(waiting.get, self._ahead[at], repeat(0))) - leaves
        servers = _servers_of(workload, view.cluster) if workload.scale.gang else 1
        return _Place(at, before, max(0, ahead), lower, servers)

    def _waiting(
        self,
        request: Request,
        place: "_Place",
        slack: WaitingSlack,
        view: AdmissionView,
        why: str,
        numbers: dict[str, float],
    ) -> tuple[Decision, float]:
        """What is told one that waits in a class, and when it is reviewed."""
        at, left, before = place.at, slack.left_seconds, place.before
        ends = self._all_ends(view)
        after = self._switch_after(place, slack, ends, view)
        numbers["slack_seconds"], numbers["waiting_before"] = left, float(before)
        numbers["switch_seconds"] = after
        where = self._classes[at - 1] if at > 0 and after < left else "any server"
        cpu, told = request.reserved_cpu(view.cluster.capabilities), ""
        need = cpu, request.workload.reservation.memory_bytes
        suitable = self._suitable(request, slack, view.cluster, cpu)
        in_time = self._served(place, need, ends, [left], after, view, suitable)
        if in_time is not None:
            over = numbers["wait_over_slack_probability"] = 1 - in_time[0]
            told = f"; it should be placed by then with {1 - over:.0%}"
        message = (
            f"{why}; {before} wait before it, {slack.why()}{told}; "
            f"after {in_tenths(after)} it turns to {where}"
        )
        return self._decision(message, numbers), view.now + after

    def _switch_after(
        self, place: "_Place", slack: WaitingSlack, ends: Releases | None, view: AdmissionView
    ) -> float:
        """Seconds after which it turns to the class below, at the end of its slack to any."""
        at, left, count = place.at, slack.left_seconds, len(self._classes)
        if at == 0:
            return left
        own, below, position = ends, ends, place.before + place.servers
        lower = place.lower + place.servers
        if self._takes_higher:
            # In the class below all of its own class are served before it.
            position += place.ahead
            lower += place.ahead + view.waiting.get(self._classes[at], 0)
        else:
            own, below = (self._ends_of(self._classes[each], view) for each in (at, at - 1))
        budget = left + (slack.expected_seconds or left)
        middle, middle_below = (at + 0.5) / count, (at - 0.5) / count
        after = switch_after(
            own, position, below, lower, middle, middle_below, left, budget, self._takes_better
        )
        if after is None:
            after = left / (at + 1)  # Nothing is known: each class gets its part.
        return after if after > LEAST_WAIT else LEAST_WAIT

    # --- slack ------------------------------------------------------------------------------

    def _slack(self, request: Request, view: AdmissionView) -> WaitingSlack:
        """How long it may wait; one of which nothing is known runs as long as others."""
        return waiting_slack(request, view.cluster.platforms, _noted(view.note).typical_seconds)

    # --- pools ------------------------------------------------------------------------------

    def _classes_begin(self, view: AdmissionView) -> Sequence[float] | None:
        """Where the classes of workloads begin; ``None`` = no server's quality is known."""
        if not has_scores(view.cluster):
            return None
        if self._has_equal_ranges:
            return self._equal
        begin = _noted(view.note).edges
        return begin if len(begin) == len(self._classes) - 1 else self._equal

    def pools(self, cluster: View) -> NDArray[np.intp] | None:
        """(S,) the class of each server, as it is now; ``None`` = no scores are known."""
        of_servers = qualities(cluster, self.settings.quality)
        if of_servers is None:
            return None
        return class_of(of_servers, self._pools_begin(of_servers, cluster))

    def _pools_begin(self, of_servers: Array, cluster: View) -> Sequence[float]:
        """Where the classes of servers begin."""
        if self._has_equal_ranges:
            return self._equal
        return self._ordered.quantiles(of_servers, cluster.accepting, self._equal)

    def servers(self, request: Request, queue: str, view: AdmissionView) -> Sequence[Servers]:
        """Those of its class and of higher ones, as ``higher`` says."""
        at = self._at.get(queue)
        # What has been placed before waits for no quality: nothing reviews it again.
        if at is None or request.restarted or request.excluded:
            return ()
        slack = self._slack(request, view)
        if slack.left_seconds <= LEAST_WAIT:
            return ()
        of_servers = qualities(view.cluster, self.settings.quality)
        if of_servers is None:
            return ()
        begin = self._pools_begin(of_servers, view.cluster)
        need = request.reserved(view.cluster.capabilities)
        suitable = self._suitable(request, slack, view.cluster, need.cpu_millicpus)
        # What its residents cause is what their server's quality is: it may come into any class.
        awaited = np.ones(len(of_servers), dtype=np.bool_)
        if suitable is not None:
            awaited = np.frombuffer(suitable, dtype=np.bool_)[view.cluster.platform]
        if self._takes_higher:
            good = awaited & (of_servers >= (begin[at - 1] if at else -inf))
            return () if good.all() else ServerSets.of([good], awaited)
        # NaN is in no class.
        of_servers = np.where(awaited, of_servers, np.nan)
        bounds = [-inf, *begin, inf][at : self._end_above(at, view) + 1]
        tiers, has_room = tiers_by_quality(need, view.cluster, of_servers, bounds)
        useful = [servers for servers, fits in zip(tiers, has_room, strict=True) if fits]
        # Empty would say that it may take any.
        return ServerSets.of(useful or [tiers[0]], awaited)

    def _suitable(
        self, request: Request, slack: WaitingSlack, cluster: View, cpu_millicpus: int
    ) -> bytes | None:
        """(P,) the platforms, as bytes, that one takes that waits in a class; ``None`` = all."""
        if self._takes_platforms:
            return None
        return suitable_platforms(request, slack, cluster, cpu_millicpus)

    def blocks(self, reason: ReasonCode) -> bool:
        """For want of room; of a server of its class only where all of a class take the same."""
        if reason is ReasonCode.WAITS_FOR_QUALITY:
            return self._takes_platforms
        return super().blocks(reason)

    # --- waits ------------------------------------------------------------------------------

    def releases(self, queue: str, view: AdmissionView) -> Releases | None:
        """When servers that serve a class should come free; ``None`` = nothing is known.

        Where it may take servers of higher classes, too, every end counts.
        """
        return self._all_ends(view) if self._takes_higher else self._ends_of(queue, view)

    def _ends_of(self, queue: str, view: AdmissionView) -> Releases | None:
        """When what this queue has placed should end."""
        account = view.accounts.get(queue)
        began = [account.began] if account and account.began else []
        return _ends(_of(_noted(view.note).fits, queue), began, view.now)

    def _all_ends(self, view: AdmissionView) -> Releases | None:
        """When what all queues have placed should end."""
        began = [times for account in view.accounts.values() if (times := account.began)]
        return _ends(_noted(view.note).fits.get(""), began, view.now)

    def _served(
        self,
        place: "_Place",
        need: tuple[int, int],
        ends: Releases | None,
        times: list[float],
        turns_after: float,
        view: AdmissionView,
        suitable: bytes | None = None,
    ) -> list[float] | None:
        """Probability that one that waits in a class is placed, by time; ``None`` = unknown.

        ``need`` are its thousandths of a CPU and bytes of memory. It turns to the class below
        ``turns_after`` so many seconds: from then on the ends there count, and the servers that
        have room there now. ``suitable`` (P,) are the platforms that it takes; ``None`` = all.
        """
        at, cluster = place.at, view.cluster
        of_servers = qualities(cluster, self.settings.quality)
        if ends is None or of_servers is None:
            return None
        begin = self._pools_begin(of_servers, cluster)
        own = self._taken_from(at, begin, view)
        turned = self._taken_from(at - 1, begin, view) if at > 0 else own
        before = place.before
        before += place.ahead if self._takes_higher else view.waiting.get(ANY, 0)
        return server_rooms(cluster).served(
            of_servers,
            *need,
            own,
            turned,
            place.servers,
            suitable,
            ends,
            times,
            turns_after,
            GIVES,
            place.servers + TAKEN * before,
        )

    def _taken_from(self, at: int, begin: Sequence[float], view: AdmissionView) -> TakenServers:
        """The qualities of servers that those that wait in a class may take."""
        least = begin[at - 1] if at > 0 else -inf
        if self._takes_higher:
            return least, inf
        end = self._end_above(at, view)
        return least, begin[end - 1] if end < len(self._classes) else inf

    def _end_above(self, at: int, view: AdmissionView) -> int:
        """The first class above one that has those waiting for whom its servers are kept."""
        waiting, classes = view.waiting, self._classes
        above = (each for each in range(at + 1, len(classes)) if waiting.get(classes[each], 0))
        return next(above, len(classes))

    def report(self, queue: str, view: AdmissionView) -> QueueReport:
        """Its servers, the wait of the next that comes, and its load."""
        at, cluster, fits = self._at.get(queue), view.cluster, _noted(view.note).fits
        of_servers = qualities(cluster, self.settings.quality)
        if of_servers is None or queue == BEST_EFFORT:
            return QueueReport()
        begin = self._pools_begin(of_servers, cluster)
        pools = class_of(of_servers, begin)
        load = self._loads(pools, view).get(queue)
        report = QueueReport()
        if load is not None:
            told = load.warning(queue)
            report = QueueReport(load=load.factor, load_parts=load.parts, warning=told)
        if at is None and queue != ANY:
            return report
        mine, usual = cluster.accepting > 0, _usual(cluster)
        if at is not None:
            mine = mine & (pools == at)
            bounds = (0.0, *begin, 1.0)
            report = replace(report, quality=(bounds[at], bounds[at + 1]))
        free = int((mine & with_room(cluster, usual)).sum())
        report = replace(report, servers=int(mine.sum()), free=free)
        busy = _of(fits, queue)
        if busy is None:
            return report
        times: list[float] = np.linspace(0.0, 2 * busy.median(), GRID).tolist()
        ends = self._all_ends(view)
        rank = busy.median() if self._serves_shortest else 0.0
        if at is None:
            (ahead,) = view.before((ANY,), _NEXT_REQUEST.workload.priority, rank, "")
            place = _Place(0, 0, ahead, 0, 1)
        else:
            place = self._place_in(at, _NEXT_REQUEST, rank, view)
        need = usual.cpu_millicpus, usual.memory_bytes
        in_time = self._served(place, need, ends, times, times[-1], view)
        if in_time is None:
            return report
        reached = [
            float(np.interp(share, in_time, times)) if in_time[-1] >= share else None
            for share in NEXT.tolist()
        ]
        low, median, high = reached
        over = np.interp(DEFAULT_TOLERANCE * busy.median(), times, in_time)
        return replace(
            report,
            wait_seconds=median,
            wait_low=low,
            wait_high=high,
            # Where there are classes, what waits among all has no slack.
            over_slack=None if at is None and self._classes else 1 - float(over),
        )

    def _loads(self, pools: NDArray[np.intp], view: AdmissionView) -> dict[str, QueueLoad]:
        """Of each class, and of the queue whose servers are all."""
        fits, queues = _noted(view.note).fits, (*self._classes, ANY, LATE)
        counts = {name: int((pools == row).sum()) for name, row in self._at.items()}
        counts[ANY] = counts[LATE] = int((view.cluster.accepting > 0).sum())
        holds = {
            name: max(1, counts[name], len(view.accounts[name].began))
            for name in queues
            if name in view.accounts
        }
        means = {name: busy.mean() for name in holds if (busy := _of(fits, name)) is not None}
        return load_factors(queues, view.accounts, means, holds, view.now)

    # --- what is remembered -----------------------------------------------------------------

    def observe(self, view: AdmissionView) -> str | None:
        """Fit busy periods again where there are more of them, and the classes with them."""
        noted = _noted(view.note)
        fits, typical = noted.fits, noted.typical_seconds
        due = {
            queue: account
            for queue, account in view.accounts.items()
            if queue in self._at and _is_due([account], fits.get(queue))
        }
        ended = sum(account.ended for account in view.accounts.values())
        every = _is_due(view.accounts.values(), fits.get(""))
        if not due and not every:
            return None
        made = dict(fits)
        demands = np.array([one for each in view.accounts.values() for one in each.demands])
        for queue, account in due.items():
            made[queue] = replace(fitted(lasting([account], view.now)), samples=account.ended)
        if every:
            every_queue = lasting(view.accounts.values(), view.now)
            made[""] = replace(fitted(every_queue), samples=ended)
            seconds = [s for each in view.accounts.values() for s in each.busy_seconds]
            typical = float(np.median(seconds))
        begin: Sequence[float] = ()
        if self._classes and not self._has_equal_ranges and len(demands) >= FEW:
            begin = edges(len(self._classes), Ranges.QUANTILE, demands).tolist()
        return _note_of(made, begin, typical)

    def _decision(self, message: str, numbers: dict[str, float]) -> Decision:
        return replaced(_ADMITTED, message=message, numbers=numbers)


_ADMITTED = Decision(Stage.ADMISSION, Arq.name, True, ReasonCode.OK, message="")
_WAITS_IN = Admit()


def _ends(busy: BusyPeriods | None, began: list[list[float]], now: float) -> Releases | None:
    """When what these queues have placed should end; ``None`` = nothing is known."""
    if busy is None or not began:
        return None
    return busy.curve.releases(began, now, max(2, AGES // len(began)))


def _of(fits: dict[str, BusyPeriods], queue: str) -> BusyPeriods | None:
    """Of a queue; where it has too few busy periods, of all."""
    return fits.get(queue) or fits.get("")


def _is_due(accounts: Iterable[QueueAccount], fit: BusyPeriods | None) -> bool:
    """Whether enough has ended since: a quarter more, or half of what is kept is new."""
    ended = kept = 0
    for account in accounts:
        ended, kept = ended + account.ended, kept + len(account.busy_seconds)
    if fit is None:
        return ended >= FEW
    more = min((GROWTH - 1) * fit.samples, REPLACED * kept)
    return ended >= fit.samples + max(more, LEAST_NEW)


class _Place(NamedTuple):
    """Where one that waits in a class comes.

    Attributes:
        at: The class.
        before: How many of that class are served before it; ``ahead`` = in the queues before that;
            ``lower`` = of the class below, once it is there.
        servers: So many ends give it a place.
    """

    at: int
    before: int
    ahead: int
    lower: int
    servers: int


def _servers_of(workload: Workload, cluster: View) -> int:
    """How many servers a gang may need together; what is none begins with one."""
    return max(1, min(workload.scale.max_servers, cluster.capabilities.max_servers_per_workload))


def _usual(cluster: View) -> Allocation:
    """What a resident holds in the mean; what others hold there ends with none of them."""
    residents = max(1, int(cluster.residents.sum()))
    cpu, memory = int(cluster.cpu_allocated.sum()), int(cluster.memory_allocated.sum())
    if cluster.cpu_others is not None and cluster.memory_others is not None:
        cpu -= int(cluster.cpu_others.sum())
        memory -= int(cluster.memory_others.sum())
    return Allocation(cpu // residents, memory // residents)


@dataclass(frozen=True, slots=True)
class _Noted:
    """What it remembers.

    Attributes:
        fits: Busy periods by queue; ``""`` = of all.
        edges: Where classes begin.
        typical_seconds: The median of the busy periods that have ended: so long runs one of which
            nothing is known. ``None`` = too few have ended.
    """

    fits: dict[str, BusyPeriods]
    edges: tuple[float, ...] = ()
    typical_seconds: float | None = None


def _note_of(
    fits: dict[str, BusyPeriods], begin: Sequence[float], typical_seconds: float | None
) -> str:
    told = {
        queue: [str(fit.family), list(fit.parameters), fit.samples, fit.distance]
        for queue, fit in sorted(fits.items())
    }
    noted = {"fits": told, "edges": list(begin), "typical": typical_seconds}
    return json.dumps(noted, separators=(",", ":"))


@lru_cache(maxsize=8)
def _noted(note: str) -> _Noted:
    """Not to be changed."""
    if not note:
        return _Noted({})
    told: dict[str, Any] = json.loads(note)
    fits = {
        queue: BusyPeriods(BusyFamily(family), tuple(parameters), samples, distance)
        for queue, (family, parameters, samples, distance) in told["fits"].items()
    }
    return _Noted(fits, tuple(told["edges"]), told.get("typical"))
