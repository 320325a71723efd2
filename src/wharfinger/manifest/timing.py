"""The kinds of a schedule: when it comes, and by which clock."""

import re
from datetime import datetime

from wharfinger.errors import InvalidInput
from wharfinger.manifest.kinds import closest, text
from wharfinger.manifest.tree import Node
from wharfinger.model.units import quoted
from wharfinger.model.workload import Schedule

_MAX_CRON = 200
_CHARACTERS = "[0-9A-Za-z*,/#-]+"
_FIVE_FIELDS = rf"^{_CHARACTERS}( +{_CHARACTERS}){{4}}$"
_FIELDS = "minute, hour, day of month, month and day of week"
_ZONE = "^[A-Za-z][A-Za-z0-9_+/-]*$"
_NICKNAMES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_A_TIME = datetime(2000, 1, 1)  # any will do: it is only asked whether one follows


def check_cron(given: str) -> None:
    """Refuse what is no cron expression, or none whose time ever comes."""
    from cronsim import CronSim, CronSimError  # noqa: PLC0415 - only those with a schedule pay

    mend = "write e.g. '0 2 * * *' for 02:00 every day"
    if given in _NICKNAMES:
        raise InvalidInput(f"{quoted(given)} is not known; write '{_NICKNAMES[given]}'")
    count = len(given.split())
    if count != 5:
        raise InvalidInput(f"{quoted(given)} has {count} fields, not {_FIELDS}; {mend}")
    if not re.fullmatch(_FIVE_FIELDS, given):
        raise InvalidInput(f"{quoted(given)} is not a cron expression; {mend}")
    try:
        if next(CronSim(given, _A_TIME), None) is None:
            raise InvalidInput(f"{quoted(given)} names a day that never comes; {mend}")
    except CronSimError as error:
        wrong = str(error).removeprefix("Bad ").replace("-", " ")
        message = f"{quoted(given)} is not a cron expression: its {wrong} is wrong; {mend}"
        raise InvalidInput(message) from None


def check_time_zone(given: str) -> None:
    """Refuse a time zone that this machine does not know; it always knows UTC."""
    import zoneinfo  # noqa: PLC0415 - as cronsim

    if given == "UTC":
        return
    try:
        if re.fullmatch(_ZONE, given):
            zoneinfo.ZoneInfo(given)
            return
    except (ValueError, OSError, zoneinfo.ZoneInfoNotFoundError):
        pass  # the last is also of names that are directories
    known = zoneinfo.available_timezones()
    cities = {name.rpartition("/")[2]: name for name in sorted(known)}
    near = closest(given, [*known]) or cities.get(closest(given, [*cities]) or "")
    mend = f"did you mean {near}?" if near else "write e.g. Europe/Berlin"
    if not known:
        mend = "this machine knows only UTC; install its time zones (Debian: tzdata)"
    raise InvalidInput(f"{quoted(given)} is not a time zone; {mend}")


def _cron(given: str, _: str) -> str:
    check_cron(given)
    return given


def _time_zone(given: str, _: str) -> str:
    check_time_zone(given)
    return given


CRON = text("cron expression", _FIVE_FIELDS, _MAX_CRON, "", "0 2 * * *", check=_cron)
TIME_ZONE = text("time zone", _ZONE, 64, "", "Europe/Berlin", check=_time_zone)


def read_schedule(node: Node, directory: str) -> Schedule:
    """The schedule that a cron expression alone makes."""
    return Schedule(str(CRON.read(node, directory)))
