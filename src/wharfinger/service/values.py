"""Small values as the API writes them: times, CPUs, placements."""

from datetime import UTC, datetime

from wharfinger.model import allocation
from wharfinger.model.platform import MILLICPUS_PER_CPU
from wharfinger.service import models_forecast


def timestamp(seconds: float) -> str:
    """Seconds since the epoch as RFC 3339 in UTC, to the millisecond."""
    moment = datetime.fromtimestamp(seconds, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def timestamp_or_none(seconds: float | None) -> str | None:
    """The same; ``None`` stays."""
    return None if seconds is None else timestamp(seconds)


def cpus(millicpus: int) -> float:
    """As a decimal."""
    return millicpus / MILLICPUS_PER_CPU


def span_seconds(start: float, end: float) -> float:
    """A clock that was set back makes no negative times."""
    return round(max(0.0, end - start), 3)


def placement(given: allocation.Placement) -> models_forecast.Placement:
    """An allocation on a server."""
    return models_forecast.Placement(
        name=given.server,
        cpus=cpus(given.allocation.cpu_millicpus),
        memory_bytes=given.allocation.memory_bytes,
        best_effort=given.allocation.best_effort,
    )
