"""Checks that hold placements, admissions and provisionings to what the core relies on.

They ask many questions of made-up clusters, the same ones on every machine. In a test, say
``check_policy(MyPolicy())``:

    >>> from wharfinger.policies.placement.least_loaded import LeastLoaded
    >>> from wharfinger.testing import check_policy
    >>> check_policy(LeastLoaded(), rounds=5)
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import add
from random import Random
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from wharfinger.contention.combined import Combined
from wharfinger.core.seams.admission import AdmissionPolicy, AdmissionView, QueueReport
from wharfinger.core.seams.contention import Resident
from wharfinger.core.seams.placement import PlacementPolicy
from wharfinger.core.seams.provisioning import (
    Order,
    ProvisioningPolicy,
    ProvisioningView,
    Release,
)
from wharfinger.core.seams.verdicts import (
    AdmissionVerdict,
    Admit,
    Divert,
    PlacementVerdict,
    WaitUntil,
)
from wharfinger.model.allocation import Allocation, Placement
from wharfinger.model.decisions import (
    CANDIDATES_KEPT,
    Decision,
    Place,
    Prediction,
    ReasonCode,
    Refuse,
    Stage,
)
from wharfinger.model.interference import QUALITY_SOURCES, SharedResource
from wharfinger.model.pairs import ANY_PLATFORM, PairProfile
from wharfinger.model.performance import Quantity
from wharfinger.model.profile import Classification, Curve, Entry, Estimate, Measurements
from wharfinger.model.queue_accounts import QueueAccount
from wharfinger.model.requirements import Requirement
from wharfinger.model.view import Capabilities, OffTarget, Request, Resize, View
from wharfinger.model.workload import Reservation, Run, Scale, Target, Workload, WorkloadType
from wharfinger.testing.harness import Expecting, expect

_N = TypeVar("_N", bound=np.generic)

_SOURCES = tuple(SharedResource)[:QUALITY_SOURCES]  # those that there are scores of
_MEBIBYTE = 1024**2
PLATFORMS = ("slow", "usual", "fast")
ABLE = tuple(
    Capabilities(most, fractional_cpu=fractional, resize=resize, suspend=suspend)
    for most in (1, 3, 8)
    for fractional in (True, False)
    for resize in Resize
    for suspend in (True, False)
)
"""What engines can do: every combination of what placements plan by."""
_SERVER_COUNTS = (0, 1, 1, 2, 3, 8, 30, 100)


@dataclass(frozen=True, slots=True)
class Question:
    """One made-up cluster and what is asked of it; in words when a check fails."""

    seed: int
    view: View
    request: Request

    @property
    def most_servers(self) -> int:
        """On how many servers the engine and the workload's user allow it to be."""
        scale = self.request.workload.scale.max_servers
        return min(scale, self.view.capabilities.max_servers_per_workload)

    @property
    def expect(self) -> Expecting:
        """Fails a check with the question in the message."""
        return Expecting(str(self))

    def __str__(self) -> str:
        reservation = self.request.workload.reservation
        return (
            f"seed {self.seed}: {len(self.view.names)} servers, {self.request.workload.type} asks "
            f"for {reservation.cpu_millicpus}m and {reservation.memory_bytes // _MEBIBYTE} MiB"
        )


def questions(rounds: int = 200) -> Iterator[Question]:
    """Clusters of all sizes, empty to full, closed and open; the same ones every time."""
    for seed in range(rounds):
        random = Random(seed)
        view = make_view(random, _SERVER_COUNTS[seed % len(_SERVER_COUNTS)])
        # Every combination, with clusters of every size.
        able = ABLE[(seed + seed // len(ABLE)) % len(ABLE)]
        asked = Question(seed, replace(view, capabilities=able), make_request(random, view))
        yield _with_requires(random, asked)


def _with_requires(random: Random, question: Question) -> Question:
    """The same, or with labels that only some of the servers have, as the core asks then."""
    view, request = question.view, question.request
    if random.random() < 0.7:
        return question
    share = random.choice((0.0, 0.5, 0.9))
    allowed = np.array([random.random() < share for _ in view.names], dtype=np.uint8)
    workload = replace(request.workload, requires=(Requirement("disk", ("ssd",)),))
    narrowed = replace(view, accepting=_frozen(view.accepting * allowed))
    asked = replace(request, workload=workload, allowed=_frozen(allowed))
    return Question(question.seed, narrowed, asked)


def make_view(random: Random, count: int) -> View:
    """A cluster of this many servers, some of them closed, full, or without any capacity.

    Others hold something on some of them, also more than there is.
    """
    cpu = [random.choice((0, 500, 1000, 4000, 16_000)) for _ in range(count)]
    memory = [random.choice((0, 64, 1024, 16_384)) * _MEBIBYTE for _ in range(count)]
    full = random.choice((0.0, 0.5, 0.95, 1.0))
    accepting = [random.random() > random.choice((0.0, 0.3, 1.0)) for _ in range(count)]
    platform = [random.randrange(len(PLATFORMS)) for _ in range(count)]
    contention = Combined().table()
    for row in range(count):
        residents = make_residents(random, random.choice((0, 0, 1, 3)))
        contention.put(row, PLATFORMS[platform[row]], residents)
    others = [random.choice((0.0, 0.0, 0.0, 0.5, 1.5)) for _ in range(count)]
    cpu_others = [round(share * amount) for share, amount in zip(others, cpu, strict=True)]
    memory_others = [round(share * amount) for share, amount in zip(others, memory, strict=True)]
    cpu_own = [_part(random, amount, full) for amount in cpu]
    memory_own = [_part(random, amount, full) for amount in memory]
    return View(
        names=tuple(f"server{row}" for row in range(count)),
        cpu_capacity=_column(cpu),
        cpu_allocated=_column([*map(add, cpu_own, cpu_others)]),
        memory_capacity=_column(memory),
        memory_allocated=_column([*map(add, memory_own, memory_others)]),
        accepting=_frozen(np.array(accepting, dtype=np.uint8)),
        residents=_column([random.randrange(5) for _ in range(count)]),
        copies=_column([random.randrange(2) for _ in range(count)]),
        unsettled=_frozen(np.array([random.random() < 0.1 for _ in range(count)], np.uint8)),
        platform=_column(platform),
        platforms=PLATFORMS,
        capabilities=Capabilities(
            max_servers_per_workload=random.choice((1, 1, 3, 8)),
            fractional_cpu=random.random() < 0.8,
        ),
        contention=contention,
        cpu_others=_column(cpu_others),
        memory_others=_column(memory_others),
        labels=lambda _label: {"hdd": count} if count else {},
    )


def make_residents(random: Random, count: int) -> tuple[Resident, ...]:
    """So many workloads, some of them best-effort, with scores and with profiles of pairs."""
    return tuple(
        Resident(
            name=f"w{uid}",
            uid=uid,
            classification=_drawn_classification(random),
            best_effort=random.random() < 0.3,
            tolerance=random.choice((0.0, 0.05, 1.0)),
            predicted=random.choice((None, Prediction(1.0, 0.9, 1.1, 0.8, {}, 1.2, 0.1))),
        )
        for uid in sorted(random.sample(range(1000), count))
    )


def make_request(random: Random, view: View) -> Request:
    """A workload, and up to a third of the servers that it may not go to."""
    rows = range(len(view.names))
    reservation = Reservation(
        random.choice((1, 250, 1000, 3000, 64_000)), random.choice((1, 256, 4096)) * _MEBIBYTE
    )
    workload = Workload(
        "asked",
        random.choice((*WorkloadType, WorkloadType.SINGLE_NODE, WorkloadType.BEST_EFFORT)),
        Run(("true",)),
        reservation=reservation,
    )
    if workload.type is not WorkloadType.SINGLE_NODE:
        workload = replace(workload, scale=Scale(random.choice((1, 2, 8))))
    excluded = random.sample(rows, random.randrange(len(rows) // 3 + 1))
    target = random.choice((None, 5.0, 50.0, 5000.0))
    if target is not None and not workload.best_effort:
        workload = replace(workload, target=Target(rate_per_second=target))
    classification = _drawn_classification(random) if random.random() < 0.7 else None
    return Request(workload, frozenset(excluded), classification=classification)


def _drawn_classification(random: Random) -> Classification:
    """Some curve that rises with CPU, and some scores."""
    columns = (100, 500, 1000, 4000)
    level, slope, spread = (
        random.uniform(0.01, 1),
        random.uniform(0, 1.2),
        random.choice((0.0, 0.3)),
    )
    curve = Curve(columns, tuple(Estimate(level * c**slope, spread) for c in columns))
    return Classification(
        "drawn",
        "1",
        curves={Quantity.RATE: curve} if random.random() < 0.8 else {},
        shape=curve,
        tolerated={r: Estimate(random.uniform(0, 100), 10.0) for r in random.sample(_SOURCES, 2)},
        caused={r: Estimate(random.uniform(0, 100), 10.0) for r in random.sample(_SOURCES, 2)},
        measured=random.randrange(5),
        pairs=_pairs(random) if random.random() < 0.5 else {},
    )


def _pairs(random: Random) -> dict[str, PairProfile]:
    def drawn(size: int, most: float = 1.0) -> tuple[float, ...]:
        return tuple(random.uniform(0, most) for _ in range(size))

    sure = random.random() < 0.5
    doubt = (drawn(0), drawn(0)) if sure else (drawn(3, 0.1), drawn(3, 0.1))
    return {
        platform: PairProfile(
            random.choice(("one", "two")), drawn(3), drawn(3), *doubt, drawn(2, 0.3), drawn(2)
        )
        for platform in random.choice(((ANY_PLATFORM,), ("slow", "fast")))
    }


# --- policies -----------------------------------------------------------------------------


def check_policy(policy: PlacementPolicy, *, rounds: int = 200) -> None:
    """Hold a policy to what the core relies on.

    * It places only on servers that accept work, meet what the workload requires of labels, did
      not fail to start it, and have room beside what others hold; each once, and on no more than
      the engine and the workload allow.
    * A resize keeps to that on servers that are joined, and moves nothing: one server stays. Where
      the engine resizes within the allocation, all do, with no more than at the start.
    * It refuses only with a reason, a message, and what would change it; where it says that a
      workload waits for some servers alone, room on others changes nothing.
    * Its decision has at most ``CANDIDATES_KEPT`` candidates, the scored ones first and best first.
    * The same question has the same answer, and asking changes nothing.

    Raises:
        AssertionError: The first promise that is not kept, with the seed of its question.
    """
    for question in questions(rounds):
        before = _copied(question.view)
        answer = policy.place(question.request, question.view)
        question.expect(
            policy.place(question.request, question.view) == answer,
            f"asked again, {policy.name} answers otherwise",
        )
        _check_answer(policy, question, answer)
        _check_resize(policy, question, before)
        question.expect(_is_same(before, question.view), f"{policy.name} has changed the view")


def _check_answer(policy: PlacementPolicy, question: Question, answer: PlacementVerdict) -> None:
    _check_decision(
        answer.decision, policy.name, question.expect, accepted=isinstance(answer, Place)
    )
    if isinstance(answer, Place):
        _check_places(question, answer.placements, {})
    elif isinstance(answer, WaitUntil):
        question.expect(answer.time > question.request.now, f"it waits until {answer.time}")
    elif isinstance(answer, Refuse) and answer.waits_for:
        _check_waiting(policy, question, answer.waits_for)


def _check_waiting(policy: PlacementPolicy, question: Question, servers: tuple[str, ...]) -> None:
    view = question.view
    question.expect(set(servers) <= set(view.names), f"{servers} are not all there")
    awaited = np.array([name in servers for name in view.names])
    cpu, memory = (
        _frozen(np.where(awaited, column, 0))
        for column in (view.cpu_allocated, view.memory_allocated)
    )
    elsewhere = replace(view, cpu_allocated=cpu, memory_allocated=memory)
    question.expect(
        not isinstance(policy.place(question.request, elsewhere), Place),
        f"it waits for {servers}, and goes where there is room elsewhere",
    )


def _check_places(
    question: Question, placements: tuple[Placement, ...], held: Mapping[str, Allocation]
) -> None:
    view, names = question.view, [placement.server for placement in placements]
    question.expect(bool(names), "a plan without a place")
    question.expect(len(set(names)) == len(names), f"{names} twice on one server")
    most = max(len(held), question.most_servers)
    question.expect(len(names) <= most, f"on {len(names)} servers")
    for server, placement in zip(names, placements, strict=True):
        row = list(view.names).index(server)
        if server not in held:
            question.expect(bool(view.accepting[row]), f"{server} takes no work")
            question.expect(row not in question.request.excluded, f"{server} is excluded")
            allowed = question.request.allowed
            is_allowed = allowed is None or bool(allowed[row])
            question.expect(is_allowed, f"{server} has not the labels that it requires")
        _check_room(question, row, placement.allocation, held.get(server, Allocation(0, 0)))


def has_room(view: View, row: int, given: Allocation, held: Allocation) -> bool:
    """Whether what is given in place of what is held fits; giving back always does."""
    cpu = given.cpu_millicpus - held.cpu_millicpus
    memory = given.memory_bytes - held.memory_bytes
    cpu_fits = cpu <= 0 or view.cpu_allocated[row] + cpu <= view.cpu_capacity[row]
    memory_fits = memory <= 0 or view.memory_allocated[row] + memory <= view.memory_capacity[row]
    return bool(cpu_fits and memory_fits)


def _check_room(question: Question, row: int, given: Allocation, held: Allocation) -> None:
    view = question.view
    room = has_room(view, row, given, held)
    question.expect(room, f"{given} in place of {held} has no room on {view.names[row]}")
    question.expect(given.cpu_millicpus >= 0 and given.memory_bytes > 0, f"{given}")
    if not view.capabilities.fractional_cpu:
        question.expect(given.cpu_millicpus % 1000 == 0, f"{given}, only whole CPUs are there")


def _check_resize(policy: PlacementPolicy, question: Question, before: View) -> None:
    view, random = question.view, Random(question.seed)
    rows = [row for row in range(len(view.names)) if view.residents[row]]
    if not rows:
        return
    count = random.randint(1, min(len(rows), view.capabilities.max_servers_per_workload))
    held = tuple(_held(view, row) for row in random.sample(rows, count))
    granted = tuple(_granted(placement, random) for placement in held)
    plain = replace(question.request, granted=granted)
    asked = [replace(plain, load=load) for load in (None, 0.0, 0.5, 0.9, 1.2)]
    if all(placement.allocation.cpu_millicpus for placement in held):
        asked += [replace(plain, off_target=off) for off in _OFF]
    asked.append(replace(plain, lost=(replace(held[0], server="gone"),)))
    for request in asked:
        answer = policy.resize(request, held, view)
        again = policy.resize(request, held, before)
        question.expect(answer == again, "asked again, the resize is otherwise")
        if answer is not None:
            _check_resized(policy, replace(question, request=request), held, answer)


def _held(view: View, row: int) -> Placement:
    own_cpu, own_memory = view.cpu_allocated[row], view.memory_allocated[row]
    if view.cpu_others is not None and view.memory_others is not None:
        own_cpu, own_memory = own_cpu - view.cpu_others[row], own_memory - view.memory_others[row]
    cpu, memory = int(own_cpu) // 2, int(own_memory) // 2 + 1
    step = 1 if view.capabilities.fractional_cpu else 1000
    return Placement(view.names[row], Allocation(cpu // step * step, memory))


_OFF = tuple(
    OffTarget(normalized, 30.0, used, offered_per_second=offered)
    for normalized in (0.3, 0.8, 1.6)
    for used in (None, 100.0)
    for offered in (None, 40.0)
)
"""Ways in which what runs is off its target; what it uses is more than anything holds."""


def _granted(held: Placement, random: Random) -> Placement:
    """What it had at its start: as much as it holds, or more."""
    times, allocation = random.choice((1, 1, 2)), held.allocation
    more = replace(
        allocation,
        cpu_millicpus=allocation.cpu_millicpus * times,
        memory_bytes=allocation.memory_bytes * times,
    )
    return replace(held, allocation=more)


def _check_resized(
    policy: PlacementPolicy, question: Question, held: tuple[Placement, ...], answer: Place | Refuse
) -> None:
    accepted = isinstance(answer, Place)
    resized = Expecting(f"{question}, resized")
    _check_decision(answer.decision, policy.name, resized, accepted=accepted)
    if not isinstance(answer, Place):
        return
    question.expect(bool(question.view.capabilities.resize), "this engine can't resize")
    now = {placement.server: placement.allocation for placement in held}
    if question.view.capabilities.resize is Resize.WITHIN_ALLOCATION:
        _check_within(question, held, answer.placements)
    stays = any(placement.server in now for placement in answer.placements)
    question.expect(stays, f"it is moved from {now} to {answer.placements}")
    _check_places(question, answer.placements, now)


def _check_within(
    question: Question, held: tuple[Placement, ...], placements: tuple[Placement, ...]
) -> None:
    servers = {placement.server for placement in placements}
    stays = servers == {placement.server for placement in held}
    question.expect(stays, f"within its allocation it goes from {held} to {placements}")
    granted = {placement.server: placement.allocation for placement in question.request.granted}
    for placement in placements:
        given, most = placement.allocation, granted[placement.server]
        within = (
            given.cpu_millicpus <= most.cpu_millicpus and given.memory_bytes <= most.memory_bytes
        )
        question.expect(within, f"it started with {most}, and gets {given}")


def _check_decision(
    decision: Decision, name: str, expect: Callable[[bool, str], None], *, accepted: bool
) -> None:
    expect(decision.decided_by == name, f"decided by {decision.decided_by!r}, not {name}")
    expect(decision.accepted == accepted, "plan or refusal, the record says otherwise")
    foreseen = (ReasonCode.OK, ReasonCode.WILL_MISS, ReasonCode.NO_SLACK)
    reasons = foreseen if accepted else set(ReasonCode) - {"ok"}
    expect(decision.reason in reasons, f"reason {decision.reason}")
    expect(bool(decision.message), "no message")
    expect("\n" not in decision.message, "the message is not one line")
    expect(bool(decision.would_change) != accepted, "would_change")
    expect(len(decision.candidates) <= CANDIDATES_KEPT, f"{len(decision.candidates)} kept")
    servers = [candidate.server for candidate in decision.candidates]
    expect(len(set(servers)) == len(servers), f"a candidate twice in {servers}")
    scores = [candidate.score for candidate in decision.candidates]
    finite = [score for score in scores if score is not None]
    expect(scores[: len(finite)] == sorted(finite), f"candidates are not ranked: {scores}")


# --- admissions ---------------------------------------------------------------------------


def check_admission(admission: AdmissionPolicy, *, rounds: int = 200) -> None:
    """Hold an admission to what the core relies on.

    * It names at least one queue, each once, and sends every workload to one of them.
    * It turns away only with a reason, a message, and what would change it.
    * The same question has the same answer, and asking changes nothing.
    * What can never be placed does not block others without end.
    * Sets of servers have a place for each server; what it expects of a queue is possible.

    Raises:
        AssertionError: The first promise that is not kept, with the seed of its question.
    """
    queues = admission.queues
    expect(bool(queues) and len(set(queues)) == len(queues), f"queues are {queues}")
    for never in (ReasonCode.TOO_LARGE, ReasonCode.NOT_ALLOWED):
        expect(not admission.blocks(never), f"one that is {never} holds all others up")
    expect(not admission.blocks(ReasonCode.OK), "one that has its place holds others up")
    for question in questions(rounds):
        random = Random(question.seed)
        waiting = {queue: random.choice((0, 1, 1000, 10**9)) for queue in queues}
        accounts = {queue: _made_account(random) for queue in queues}
        served_before = partial(_before, waiting, random.random())
        profile_seconds = random.choice((0.0, 5.0))
        view = AdmissionView(
            _copied(question.view),
            dict(waiting),
            1e6,
            accounts=accounts,
            positions=served_before,
            profile_seconds=partial(_same, profile_seconds),
        )
        note = admission.observe(view)
        question.expect(admission.observe(view) == note, "it remembers otherwise")
        if note is not None:
            view = replace(view, note=note)
            question.expect(admission.observe(view) in (None, note), "its note never settles")
        request = _may_wait(random, question.request)
        gate = admission.admit(request, view)
        question.expect(admission.admit(request, view) == gate, "it answers otherwise")
        _check_verdict(admission, question, gate)
        queued = admission.enqueue(request, view)
        _check_verdict(admission, question, queued)
        if isinstance(queued, Admit):
            queue = queued.queue
            question.expect(queue in queues, f"queue {queue!r} is none of {queues}")
            _check_review(admission, question, request, queue, view)
            for allowed in admission.servers(request, queue, view):
                shape = (len(view.cluster.names),)
                question.expect(allowed.shape == shape, f"servers of shape {allowed.shape}")
                question.expect(allowed.dtype == np.bool_, f"servers are {allowed.dtype}")
        for queue in queues:
            _check_report(admission.report(queue, view), question)
        question.expect(view.waiting == waiting, f"{admission.name} has changed the view")
        question.expect(_is_same(view.cluster, question.view), "it has changed the cluster")


def _before(
    waiting: Mapping[str, int],
    share: float,
    queues: Sequence[str],
    priority: int,
    rank: float,
    name: str,
) -> list[int]:
    """Fewer are served before one of a higher priority, or one that waits already."""
    less = share / (2.0 ** max(priority, 0)) if name else 1.0
    return [int(waiting.get(queue, 0) * less) if rank >= 0 else 0 for queue in queues]


def _same(seconds: float, _: Request) -> float:
    return seconds


def _may_wait(random: Random, request: Request) -> Request:
    """The same of a workload of which something is known: how long it takes, and may take."""
    workload, known = request.workload, None
    if random.random() < 0.5:
        rate, work = random.choice((1.0, 50.0)), random.choice((None, 5e3))
        known = Measurements({Quantity.RATE: {1000: Entry(rate)}}, total=work)
    if workload.type is WorkloadType.BATCH and random.random() < 0.5:
        workload = replace(workload, target=Target(completion_seconds=random.choice((60.0, 5e3))))
    workload = replace(
        workload,
        priority=random.choice((-1, 0, 5)),
        expected_seconds=random.choice((None, None, 1e3)),
        waiting_seconds=random.choice((None, None, None, 0.0, 30.0)),
    )
    waited_seconds = random.choice((0.0, 0.0, 10.0, 1e5))
    return replace(request, workload=workload, measurements=known, waited_seconds=waited_seconds)


def _made_account(random: Random) -> QueueAccount:
    """What may have gone through a queue in a million seconds."""
    account = QueueAccount()
    for at in range(random.choice((0, 1, 30, 300))):
        account.arrive(3000.0 * at)
        account.place(f"w{at}", 3000.0 * at)
        if random.random() < 0.8:
            ended_at = 3000.0 * at + random.expovariate(1 / 600)
            account.end(f"w{at}", ended_at, has_run=random.random() < 0.9)
    return account


def _check_report(report: QueueReport, question: Question) -> None:
    for told in (report.servers, report.free, report.load, report.wait_seconds):
        question.expect(told is None or told >= 0, f"{report}")
    over = report.over_slack
    question.expect(over is None or -1e-9 <= over <= 1 + 1e-9, f"{report}")
    waits = (report.wait_low, report.wait_seconds, report.wait_high)
    known = [wait for wait in waits if wait is not None]
    question.expect(known == sorted(known), f"{report}")


def _check_review(
    admission: AdmissionPolicy,
    question: Question,
    request: Request,
    queue: str,
    view: AdmissionView,
) -> None:
    reviewed = admission.review(request, queue, view)
    if isinstance(reviewed, Divert):
        question.expect(reviewed.queue in admission.queues, f"to queue {reviewed.queue!r}")
        question.expect(reviewed.queue != queue, "diverted to where it is")
    named = "time" if isinstance(reviewed, WaitUntil) else "review_at"
    later = getattr(reviewed, named, None)
    question.expect(later is None or later > view.now, f"reviewed again at {later}")


def _check_verdict(
    admission: AdmissionPolicy, question: Question, verdict: AdmissionVerdict
) -> None:
    decision, accepted = verdict.decision, isinstance(verdict, Admit)
    if isinstance(verdict, WaitUntil):
        question.expect(verdict.time > 0, f"it waits until {verdict.time}")
    if decision is None:
        question.expect(accepted, "it says no without a reason")
        return
    question.expect(decision.stage is Stage.ADMISSION, f"stage {decision.stage}")
    _check_decision(decision, admission.name, question.expect, accepted=accepted)


def check_provisioning(provisioning: ProvisioningPolicy, *, rounds: int = 200) -> None:
    """Hold a provisioning to what the core relies on.

    * It releases only servers that were acquired, each once, and orders only with a platform.
    * Each order and release has its reason; the record says the same as the verdict.
    * When it has ordered all that it wants, it wants no more.
    * It wants to be asked again only later than now.
    * The same question has the same answer, and asking changes nothing.

    Args:
        provisioning: Is asked.
        rounds: How many clusters are made up.

    Raises:
        AssertionError: The first promise that is not kept, with the seed of its question.
    """
    for question in questions(rounds):
        random = Random(question.seed)
        expect = Expecting(f"{question}: {provisioning.name}")
        names = list(question.view.names)
        acquired = random.sample(names, random.randrange(len(names) + 1))
        view = ProvisioningView(
            _copied(question.view),
            {"guaranteed": random.choice((0, 1, 20)), "best-effort": random.choice((0, 3))},
            {platform: random.choice((0, 1)) for platform in PLATFORMS},
            {name: random.uniform(0, 1000) for name in acquired},
            {platform: 1060.0 for platform in PLATFORMS if random.random() < 0.2},
            1000.0,
        )
        _check_provisioned(provisioning, view, expect)
        expect(_is_same(view.cluster, question.view), "it has changed the cluster")


def _check_provisioned(
    provisioning: ProvisioningPolicy, view: ProvisioningView, expect: Expecting
) -> None:
    wanted = provisioning.provision(view)
    expect(provisioning.provision(view) == wanted, "answers otherwise, asked again")
    released = [each.server for each in wanted if isinstance(each, Release)]
    expect(set(released) <= view.acquired.keys(), "releases what was not acquired")
    expect(len(set(released)) == len(released), f"releases {released}, some twice")
    for each in wanted:
        decision = each.decision
        expect(decision.decided_by == provisioning.name, f"{decision.decided_by!r}")
        expect(decision.accepted and bool(decision.message), f"{decision}")
    due = provisioning.wake_at(view)
    expect(due is None or due > view.now, f"wakes at {due}, now is {view.now}")
    _check_ends(provisioning, view, expect)


def _check_ends(
    provisioning: ProvisioningPolicy, view: ProvisioningView, expect: Expecting
) -> None:
    for _ in range(100):
        wanted = provisioning.provision(view)
        if not wanted:
            return
        ordered, acquired = dict(view.ordered), dict(view.acquired)
        for each in wanted:
            if isinstance(each, Order):
                expect(bool(each.platform), "an order without a platform")
                ordered[each.platform] = ordered.get(each.platform, 0) + 1
            else:
                del acquired[each.server]
        view = replace(view, ordered=ordered, acquired=acquired)
    expect(False, "it never has what it wants")


# --- pieces -------------------------------------------------------------------------------

_COLUMNS = (
    "cpu_capacity",
    "cpu_allocated",
    "memory_capacity",
    "memory_allocated",
    "accepting",
    "residents",
    "copies",
    "unsettled",
    "cpu_others",
    "memory_others",
)


def _part(random: Random, amount: int, full: float) -> int:
    return int(amount * min(1.0, full * random.uniform(0.9, 1.1)))


def _column(values: list[int]) -> NDArray[np.int64]:
    return _frozen(np.array(values, dtype=np.int64))


def _frozen(column: NDArray[_N]) -> NDArray[_N]:
    column.flags.writeable = False
    return column


def _copied(view: View) -> View:
    copies: dict[str, Any] = {name: _frozen(getattr(view, name).copy()) for name in _COLUMNS}
    return replace(view, **copies)


def _is_same(one: View, other: View) -> bool:
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in _COLUMNS)
