"""What a dry run says of a workload: what it would get now, how sure that is, and what else.

Called by the routes that submit. A workload that was never measured is classified from its type.
"""

import asyncio
from enum import StrEnum

from pydantic import Field

from wharfinger.classification.prediction import estimate_of, reached_probability
from wharfinger.core.outlook import Outlook, measurements_like, outlook
from wharfinger.model.allocation import cpu_of
from wharfinger.model.decisions import Place, ReasonCode
from wharfinger.model.profile import Classification, Measurements
from wharfinger.model.workload import ProfileMode, Workload
from wharfinger.runtime.runtime import Runtime
from wharfinger.service.models import ApiModel, Cpus
from wharfinger.service.performance import PredictionModel

PATIENCE_SECONDS = 5.0
"""So long a dry run waits for the classifier, which may be busy with others."""
OTHERS = 3
ROUNDED = 1e-9


class Basis(StrEnum):
    """On what a prediction rests."""

    MEASURED = "measured"
    """What was measured of it."""
    SAME_PROGRAM = "same-program"
    """What was measured of the same program before; it is not profiled again."""
    TYPE = "type"
    """Known programs of its type: nothing of its own is measured."""
    NOTHING = "nothing"
    """The policy predicts no performance, or nothing has classified it."""


class GivenModel(ApiModel):
    """An allocation on one server."""

    name: str = Field(validation_alias="server", description="The server's.")
    cpus: Cpus
    memory_bytes: int
    best_effort: bool


class OptionModel(ApiModel):
    """One set of allocations, and what is expected with it."""

    servers: list[GivenModel]
    cpus: Cpus = Field(description="On all servers together.")
    predicted: PredictionModel | None = Field(description="`null` = nothing is predicted.")
    kept_probability: float | None = Field(
        description="That the target, less its tolerance, is kept; `null` = nothing is predicted."
    )
    kept: bool | None = Field(description="Whether that is so with the policy's confidence.")
    message: str = Field(description="Why the policy would choose it.")


class OutlookModel(ApiModel):
    """What would be decided now, as if it were the workload's turn, and other allocations."""

    basis: Basis
    message: str = Field(description="On what the prediction rests, or why there is none.")
    attainable: bool | None = Field(
        description="Whether any allocation keeps the target; `null` = nothing is predicted."
    )
    chosen: OptionModel | None = Field(description="`null` = it would not be placed now.")
    refusal: str = Field(description="Why it would not be placed now; empty = it would.")
    others: list[OptionModel] = Field(
        description="The three cheapest others that keep the target; where none does, those that "
        "come nearest."
    )


async def outlook_of(runtime: Runtime, workload: Workload) -> OutlookModel | None:
    """What it would get now; ``None`` = it has its place."""
    now = runtime.now()
    basis, message, classified = await _classified(runtime, workload, now)
    made = outlook(runtime.manager, workload, now, classified)
    return None if made is None else shown(made, workload, basis, message)


async def foreseen_miss(runtime: Runtime, workload: Workload) -> str:
    """Why its target can't be kept, by what is measured of its program; empty = nothing says so."""
    now = runtime.now()
    found, _ = measurements_like(runtime.manager, workload, now)
    if workload.target is None or found == Measurements():
        return ""
    _, _, classified = await _classified(runtime, workload, now)
    made = None if classified is None else outlook(runtime.manager, workload, now, classified)
    if made is None or made.decision.reason is not ReasonCode.WILL_MISS:
        return ""
    return made.decision.message


async def _classified(
    runtime: Runtime, workload: Workload, now: float
) -> tuple[Basis, str, Classification | None]:
    record = runtime.manager.state.workloads.get(workload.name)
    live = record is not None and not (record.ended or record.revoking)
    if record is not None and live and record.classification is not None:
        return Basis.MEASURED, "by its own classification", record.classification
    if runtime.asks is None or runtime.manager.policy.estimation is None:
        return Basis.NOTHING, f"{runtime.manager.policy.name} predicts no performance", None
    found, why = measurements_like(runtime.manager, workload, now)
    basis, message = Basis.SAME_PROGRAM, why
    if found == Measurements():
        basis, message = Basis.TYPE, from_type(workload)
    try:
        answer = asyncio.wrap_future(runtime.asks(workload, found))
        return basis, message, await asyncio.wait_for(answer, PATIENCE_SECONDS)
    except TimeoutError:
        return Basis.NOTHING, "the classifier is busy; ask again later", None
    except Exception as error:  # noqa: BLE001
        # A fault of an estimator, which it has logged, leaves the rest of the answer.
        return Basis.NOTHING, f"it can't be classified: {error}", None


def from_type(workload: Workload) -> str:
    """In words, that it would be a cold start."""
    if workload.best_effort:
        return "best-effort work has no target, and gets the CPU that is idle"
    if workload.target is None:
        return "it has no target, and gets its reservation"
    return f"nothing of it is measured: from known {workload.type.value} programs"


def shown(made: Outlook, workload: Workload, basis: Basis, message: str) -> OutlookModel:
    """The answer, with the others by what they cost."""
    chosen = None if made.chosen is None else _option(made.chosen, workload)
    others = [_option(place, workload) for place in made.others]
    told = [option.kept for option in (chosen, *others) if option and option.kept is not None]
    if chosen and not told and workload.target is not None and basis is not Basis.NOTHING:
        until = "is measured" if workload.profile.mode is ProfileMode.COPY else "runs"
        message += f"; how it performs by CPU is unknown before it {until}"
    missed = chosen is None and made.decision.reason is ReasonCode.WILL_MISS
    return OutlookModel(
        basis=basis,
        message=message,
        attainable=False if missed else any(told) if told else None,
        chosen=chosen,
        refusal="" if chosen else made.decision.message,
        others=sorted(others, key=_cost)[:OTHERS],
    )


def _cost(option: OptionModel) -> tuple[bool, float, float]:
    """Those that keep the target first, by CPU; then those that come nearest."""
    likely = option.kept_probability or 0.0
    return (not option.kept, 0.0 if option.kept else -likely, option.cpus)


def _option(place: Place, workload: Workload) -> OptionModel:
    predicted = place.decision.predicted if workload.target is not None else None
    kept = probability = None
    if predicted is not None:
        wanted = 1 - workload.tolerance
        kept = predicted.low >= wanted - ROUNDED
        probability = reached_probability(estimate_of(predicted), max(wanted, ROUNDED))
    return OptionModel.of(
        servers=[
            GivenModel.of(placed, placed.allocation, cpus=placed.allocation.cpu_millicpus)
            for placed in place.placements
        ],
        cpus=cpu_of(place.placements),
        predicted=predicted,
        kept_probability=probability,
        kept=kept,
        message=place.decision.message,
    )
