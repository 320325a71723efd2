"""What the routes need of the manager, and how they get at it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, cast

from fastapi import Depends, Request

from wharfinger.core.pipeline import Manager
from wharfinger.service.driver import Driver
from wharfinger.service.models import ErrorAnswer


@dataclass(frozen=True, slots=True)
class StateOfManager:
    """What is said of a manager and is not in its log.

    Attributes:
        started_at: When this process took over, in seconds since the epoch.
    """

    state_directory: Path
    started_at: float


# Coroutines, or FastAPI would run them in a thread of their own.
async def _driver(request: Request) -> Driver:
    return cast("Driver", request.app.state.driver)


async def _core(request: Request) -> Manager:
    return cast("Driver", request.app.state.driver).runtime.manager


async def _manager(request: Request) -> StateOfManager:
    return cast("StateOfManager", request.app.state.manager)


TheDriver = Annotated[Driver, Depends(_driver)]
TheCore = Annotated[Manager, Depends(_core)]
TheManager = Annotated[StateOfManager, Depends(_manager)]


def may_fail(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """For the OpenAPI document: which errors a route answers with, all in one form."""
    return {status: {"model": ErrorAnswer} for status in statuses} | {
        "default": {"model": ErrorAnswer, "description": "Any other error."}
    }
