"""When a schedule lets a workload run next, from a time that is given: no clock is read."""

from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from wharfinger.model.workload import Schedule


def next_run(schedule: Schedule, after: float) -> float | None:
    """The first time of a schedule later than ``after``, both in seconds since the epoch.

    ``None`` = there is none in the next fifty years, or it is no cron expression. Where
    clocks change, it is as Debian's cron has it.

    >>> next_run(Schedule("0 2 * * *"), 0.0)
    7200.0
    """
    try:
        due = next(CronSim(schedule.cron, _at(after, schedule)), None)
    except CronSimError:
        return None
    return None if due is None else due.timestamp()


def in_zone(time: float, schedule: Schedule) -> str:
    """A time for people, in the schedule's zone.

    >>> in_zone(7200.0, Schedule("0 2 * * *"))
    '1970-01-01 02:00:00 UTC'
    """
    return f"{_at(time, schedule):%Y-%m-%d %H:%M:%S %Z}"


def _at(time: float, schedule: Schedule) -> datetime:
    # UTC is known without a database of zones.
    zone: tzinfo = UTC if schedule.time_zone == "UTC" else ZoneInfo(schedule.time_zone)
    return datetime.fromtimestamp(time, zone)
