"""What a placement or an admission may answer.

``Plan`` (place it here) and ``Refusal`` (not now, and why) are the common ones and live beside the
record of a decision, in ``model.decisions``. The others are here. Each carries its ``Decision``.
"""

from dataclasses import dataclass

from wharfinger.model.decisions import Decision, Plan, Refusal


@dataclass(frozen=True, slots=True)
class Preempt:
    """Other workloads leave their servers for this one's sake; it is asked about again then.

    Attributes:
        victims: Names of running workloads that may be started again, as ``ClusterView.occupants``
            tells; they go back to their queue. One that would be served before this one there is
            left alone: it would take its place again.
    """

    victims: tuple[str, ...]
    decision: Decision


@dataclass(frozen=True, slots=True)
class Acquire:
    """A server of this platform is to be acquired; the workload waits for it.

    One order is open for a workload at a time.
    """

    platform: str
    decision: Decision


@dataclass(frozen=True, slots=True)
class Delegate:
    """A decider outside the core is asked, on a snapshot; the core checks what it proposes.

    Attributes:
        decider: Name of the decider that is asked.
    """

    decider: str
    decision: Decision


@dataclass(frozen=True, slots=True)
class WaitUntil:
    """It waits, and is asked about again at a time.

    Attributes:
        time: In seconds since the epoch.
    """

    time: float
    decision: Decision


@dataclass(frozen=True, slots=True)
class Admit:
    """It may come in; once classified, it waits in this queue.

    Attributes:
        decision: ``None`` = there is nothing to tell beyond what was told at the gate.
        queue: Empty at the gate, where there is none yet.
        review_at: When the admission looks at it again, if it still waits; ``None`` = never.
    """

    decision: Decision | None = None
    queue: str = ""
    review_at: float | None = None


@dataclass(frozen=True, slots=True)
class Divert:
    """It leaves its queue for another one.

    Attributes:
        review_at: As in ``Admit``.
    """

    queue: str
    decision: Decision
    review_at: float | None = None


PlacementVerdict = Plan | Refusal | Preempt | Acquire | Delegate | WaitUntil
AdmissionVerdict = Admit | WaitUntil | Refusal
ReviewVerdict = Divert | WaitUntil | Refusal
