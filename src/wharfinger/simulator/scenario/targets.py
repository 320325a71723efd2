"""What users of simulated workloads ask, as a scenario states it: targets and reservations."""

from dataclasses import dataclass
from enum import StrEnum
from math import log
from typing import Annotated

import numpy as np

from wharfinger.errors import InvalidInput
from wharfinger.manifest.kinds import TIME, choice, number
from wharfinger.manifest.kinds import constant as constant_word
from wharfinger.manifest.sections import Section, section
from wharfinger.model.arrays import Array
from wharfinger.simulator.scenario.scenario_kinds import FRACTION, mapped


class TargetOf(StrEnum):
    """The platform against which performance targets are stated."""

    BEST = "best"
    """The one on which the workload is fastest."""
    RANDOM_PLATFORM = "random-platform"
    """That of a server drawn at random."""
    NONE = "none"
    """No targets, except for services."""


class TargetKind(StrEnum):
    """Terms of a target."""

    COMPLETION_TIME = "completionTime"
    RATE = "rate"


@dataclass(frozen=True, slots=True)
class Share:
    """A share drawn evenly between two ends, which may be equal."""

    low: Annotated[float, FRACTION("The least.", name="from")]
    high: Annotated[float, FRACTION("The most.", name="to")]

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise InvalidInput("from is more than to; write them the other way round")


@dataclass(frozen=True, slots=True)
class Targets:
    """Targets of workloads that have work to complete."""

    of: Annotated[
        TargetOf,
        choice(TargetOf, "best")(
            "On which platform: the best, that of a server drawn at random, or no targets."
        ),
    ] = TargetOf.BEST
    share: Annotated[
        Share,
        section(
            Share,
            "Asked of the performance alone, drawn evenly between two ends; `90%` without it.",
            short=mapped(FRACTION, lambda share: Share(share, share)),
        ),
    ] = Share(0.9, 0.9)
    kind: Annotated[TargetKind, choice(TargetKind, "rate")("In which terms.")] = TargetKind.RATE
    room_seconds: Annotated[float, TIME("Added to a completion time, for starting.")] = 0.0

    def __post_init__(self) -> None:
        if not self.share.low:
            raise InvalidInput("a share of 0% asks for nothing; write more, or of: none")
        if self.room_seconds and self.kind is not TargetKind.COMPLETION_TIME:
            raise InvalidInput("room belongs to kind: completionTime")


TARGETS = section(Targets, "What is asked of workloads that complete work.")


@dataclass(frozen=True, slots=True)
class Reservations:
    """How users misjudge what they need (Quasar, Figure 1d); factors are log-uniform.

    Attributes:
        over: Share of users that reserve too much.
        over_up_to: By at most this factor, of CPU and of memory.
        under: Share of those that reserve too little.
        under_up_to: By at most this factor, of CPU only: a program without its memory dies.
    """

    over: float = 0.7
    over_up_to: float = 10.0
    under: float = 0.2
    under_up_to: float = 5.0

    def __post_init__(self) -> None:
        if self.over + self.under > 1 + 1e-9:
            raise InvalidInput("tooMuch and tooLittle are more than 100% together")


def _misjudged(doc: str, attribute: str) -> Section:
    share = FRACTION("Of the users.", attribute)
    up_to = number(1, 1000, 10)("By at most this factor.", f"{attribute}_up_to")
    return Section(doc, {"share": share, "upTo": up_to})


RESERVATIONS = Section(
    "What users would reserve, for policies that go by it; as in Quasar's Figure 1d without it. "
    "`exact`: what is needed.",
    {
        "tooMuch": _misjudged("Who reserves more than is needed, of CPU and of memory.", "over"),
        "tooLittle": _misjudged(
            "Who reserves less CPU than is needed, and as much memory.", "under"
        ),
    },
    Reservations,
    short=mapped(constant_word("exact"), lambda _: None),
)


def misjudged(model: Reservations, draws: Array) -> tuple[Array, Array]:
    """(N,) factors by which users misjudge CPU, and memory (Quasar, Figure 1d).

    ``draws`` are (N, 3) even ones from 0 to 1: the kind of user, and how far off in CPU and memory.
    """
    over = draws[:, 0] < model.over
    under = ~over & (draws[:, 0] < model.over + model.under)
    too_much, too_little = log(model.over_up_to), -log(model.under_up_to)
    exponents = np.where(over, too_much, np.where(under, too_little, 0.0))
    return np.exp(exponents * draws[:, 1]), np.exp(np.where(over, too_much, 0.0) * draws[:, 2])
