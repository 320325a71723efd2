"""What all answers of the API have in common, and the form of errors.

An answer is a pydantic model: the one definition of its keys, their meanings and units, from which
FastAPI makes the OpenAPI document. ``ApiModel.of`` fills it from the core's values: a field takes
the attribute of its own name, or the one that its ``validation_alias`` names, so that nothing is
written twice. Times are RFC 3339 in UTC; ``null`` means unknown, never zero.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Self, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from wharfinger.model.platform import MILLICPUS_PER_CPU


def timestamp(seconds: float) -> str:
    """Seconds since the epoch as RFC 3339 in UTC, to the millisecond."""
    moment = datetime.fromtimestamp(seconds, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def span_seconds(start: float, end: float) -> float:
    """Seconds between two times, to the millisecond; 0 where the clock was set back."""
    return round(max(0.0, end - start), 3)


Timestamp: TypeAlias = Annotated[str, BeforeValidator(timestamp)]
"""Made of seconds since the epoch."""
Cpus: TypeAlias = Annotated[float, BeforeValidator(lambda millicpus: millicpus / MILLICPUS_PER_CPU)]
"""Made of thousandths of a CPU."""


class _Joined:
    """Has some values as attributes, and those of several objects; of one name, the first."""

    def __init__(self, values: Mapping[str, object], sources: tuple[object, ...]) -> None:
        self._sources = sources
        self.__dict__.update(values)

    def __getattr__(self, name: str) -> object:
        for source in self._sources:
            value = getattr(source, name, self)
            if value is not self:
                return value
        raise AttributeError(name)


class ApiModel(BaseModel):
    """Base of all answers: no unnamed keys, no changes afterwards."""

    model_config = ConfigDict(extra="forbid", frozen=True, from_attributes=True)

    @classmethod
    def of(cls, *sources: object, **values: object) -> Self:
        """An answer from ``values`` and the attributes of ``sources``, the first that has one."""
        return cls.model_validate(_Joined(values, sources))

    def as_json(self) -> dict[str, Any]:
        """The answer as plain values, under the API's keys."""
        return self.model_dump(mode="json", by_alias=True)


def former_key(key: str, attribute: str = "") -> Any:
    """The field ``key``, made of the source's ``attribute``, under the key of earlier versions."""
    description = f"Earlier name of `{key}`; the next version drops it."
    return Field(validation_alias=attribute or key, description=description, deprecated=True)


class ErrorDetail(ApiModel):
    """What went wrong."""

    code: str = Field(description="Stable word for machines, e.g. `not-found`.")
    message: str = Field(description="One line: the value, the place and the mend.")
    retryable: bool = Field(description="Whether the same call may succeed later.")
    problems: list[str] | None = Field(default=None, description="Of an invalid manifest, by line.")


class ErrorAnswer(ApiModel):
    """The form of every error."""

    error: ErrorDetail
