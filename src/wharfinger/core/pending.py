"""Pending actions: what the state asks for and the engine has not answered yet.

They are derived from the state, so that a crash between log and action loses none.
"""

from wharfinger.core import actions as act
from wharfinger.core.cluster_state import ClusterState
from wharfinger.core.lifecycle import ENDED, Phase
from wharfinger.core.residents import ClusterResidents
from wharfinger.core.state import ManagerState, WorkloadRecord
from wharfinger.core.tracking import ProbeState
from wharfinger.model.decisions import Term
from wharfinger.model.profile import Measurements, ProfilingPlan
from wharfinger.model.view import Capabilities


class PendingActions:
    """The actions that this process has not asked for yet, in this form."""

    def __init__(self, cluster: ClusterState, residents: ClusterResidents) -> None:
        self._cluster = cluster
        self._residents = residents
        self._asked: dict[str, list[tuple[object, ...]]] = {}
        self._asked_of_provisioner: set[act.Action] = set()
        self._told_of_clash: set[str] = set()

    def ask_again(self) -> None:
        """An engine begins, which may know nothing of earlier actions."""
        self._asked.clear()
        self._asked_of_provisioner.clear()
        self._told_of_clash.clear()

    def due(self) -> list[act.Action]:
        """What the state asks for since the last call."""
        cluster, state = self._cluster, self._cluster.state
        if not state.synced:
            return []
        due: list[act.Action] = []
        for name in cluster.touched:
            record = state.workloads.get(name)
            actions = pending_actions(record, state.capabilities)
            if record is not None and record.question:
                actions.append(self._question(record))
            before = self._asked.pop(name, None)
            if actions:
                asked = self._asked[name] = [_identity(action) for action in actions]
                if before is not None:
                    news = zip(asked, actions, strict=True)
                    actions = [action for what, action in news if what not in before]
                due.extend(actions)
        cluster.touched.clear()
        if cluster.dropped_keys:
            due.extend(map(act.ForgetWorkload, cluster.dropped_keys))
            cluster.dropped_keys.clear()
        if state.clashes or self._told_of_clash:
            due.extend(self._of_clashes(state))
        if state.orders or state.releasing or self._asked_of_provisioner:
            due.extend(self._of_provisioner(state))
        return due

    def _of_clashes(self, state: ManagerState) -> list[act.Action]:
        """Offers that can't be taken, since others have their names."""
        told, self._told_of_clash = self._told_of_clash, set(state.clashes)
        if not state.capabilities.annotates:
            return []
        return [_clash(*clash) for clash in state.clashes.items() if clash[0] not in told]

    def _question(self, record: WorkloadRecord) -> act.DecidePlacement:
        """What a decider is asked, on a new snapshot."""
        request = self._residents.request(record, record.phase_since)
        snapshot = request.seen(self._residents.view(record.workload)).snapshot()
        return act.DecidePlacement(record.question, record.decider, request, snapshot)

    def _of_provisioner(self, state: ManagerState) -> list[act.Action]:
        wanted: list[act.Action] = [
            act.AcquireServer(order.key, order.platform) for order in state.orders.values()
        ]
        residents = self._cluster.residency.columns.residents
        wanted += [
            act.ReleaseServer(name)
            for name in state.releasing
            if name in state.servers and not residents(name)
        ]
        due = [action for action in wanted if action not in self._asked_of_provisioner]
        self._asked_of_provisioner = set(wanted)
        return due


def _identity(action: act.Action) -> tuple[object, ...]:
    """What distinguishes it from an action that was asked for before."""
    about = action.workload if isinstance(action, act.MeasureWorkload) else None
    number = getattr(action, "number", 0)
    if isinstance(action, act.AnnotateWorkload):
        # Not again for other numbers in its text.
        return type(action), action.handle, action.reason
    placements = getattr(action, "placements", None)
    return type(action), getattr(action, "key", ""), placements, about, number


def pending_actions(record: WorkloadRecord | None, able: Capabilities) -> list[act.Action]:
    """The actions for one workload, in order."""
    if record is None:
        return []
    told = _annotation(record) if able.annotates else []
    if record.phase in ENDED:
        return told if record.is_left_held else []
    return [*told, *_asked_for(record, able)]


def _annotation(record: WorkloadRecord) -> list[act.Action]:
    """What the user of an offered workload is told: its newest decision, or why it has ended."""
    if not record.offer or not record.decisions:
        return []
    if record.phase in ENDED and record.phase is not Phase.REJECTED:
        text = f"not placed: {record.message or record.reason or record.phase}; it stays held"
        return [act.AnnotateWorkload(record.offer, f"ended: {record.phase}", text)]
    if record.revoking:
        return []
    decision = record.decisions[-1].decision
    text = decision.message
    if record.phase is Phase.REJECTED:
        text = f"rejected: {text}"
    if not decision.accepted and decision.would_change:
        text += f"; would change that: {decision.would_change}"
    reason = f"{decision.stage}: {decision.reason}"
    return [act.AnnotateWorkload(record.offer, reason, text)]


def _clash(handle: str, name: str) -> act.AnnotateWorkload:
    text = (
        f"not taken: another workload has the name {name!r}; delete that one "
        f"(wharfinger delete {name}), and it is taken when the manager is started again"
    )
    return act.AnnotateWorkload(handle, "admission: name-taken", text)


def _start(record: WorkloadRecord) -> act.StartWorkload:
    predicted = record.predicted
    completion = predicted.performance.get(Term.COMPLETION) if predicted is not None else None
    waited_seconds = record.phase_since - record.submitted_at
    return act.StartWorkload(
        record.key,
        record.workload,
        record.placements,
        record.offer,
        None if completion is None else max(0.0, completion.high - waited_seconds),
    )


def _asked_for(record: WorkloadRecord, able: Capabilities) -> list[act.Action]:
    is_stopped = record.revoking or (record.on_server and record.stop_reason)
    if is_stopped or record.phase is Phase.MIGRATING:
        return [act.StopWorkload(record.key, record.workload.run.stop_grace_seconds)]
    beside = _copies(record)
    match record.phase:
        case Phase.PLACED:
            return [_start(record), *beside]
        case Phase.STARTING:
            return beside
        case Phase.ADJUSTING:
            return [act.ResizeAllocation(record.key, record.planned), *beside]
        case Phase.SUSPENDED:
            return [act.SuspendWorkload(record.key), *beside]
        case Phase.RUNNING:
            return [*_while_it_runs(record, able), *beside]
        case Phase.PROFILING if record.profiling is not None:
            return [act.ProfileWorkload(record.key, record.workload, record.profiling)]
        case Phase.CLASSIFYING:
            return [_classify(record)]
        case _:
            return []


def _while_it_runs(record: WorkloadRecord, able: Capabilities) -> list[act.Action]:
    actions: list[act.Action] = []
    # Also where that was ineffective, and is not counted: else it would never run again.
    if record.suspensions or record.pauses or record.ineffective_at is not None:
        actions.append(act.ResumeWorkload(record.key))
    if able.measures:
        actions.append(act.MeasureWorkload(record.key, record.workload))
    if record.reclassifying:
        actions.append(_classify(record))
    if record.probe is not None and record.probe.under_way:
        actions.append(_probe(record, record.probe))
    return actions


def _copies(record: WorkloadRecord) -> list[act.Action]:
    """The profiling of its copies, beside it."""
    copies = record.copies
    if copies is None or not copies.under_way:
        return []
    return [act.ProfileWorkload(copies.key, record.workload, copies.plan)]


def _classify(record: WorkloadRecord) -> act.ClassifyWorkload:
    measurements = record.measurements or Measurements()
    return act.ClassifyWorkload(record.key, record.workload, measurements)


def _probe(record: WorkloadRecord, probe: ProbeState) -> act.ProbeWorkload:
    held = (probe.placements or record.placements)[0]
    plan = ProfilingPlan(
        held.server,
        (held.allocation.cpu_millicpus,),
        held.allocation.memory_bytes,
        probe.sources,
        record.workload.profile.seconds,
        probe.tolerance,
        live=not probe.placements,
    )
    return act.ProbeWorkload(record.key, probe.number, record.workload, plan)
