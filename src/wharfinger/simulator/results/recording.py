"""The log of a run in a file: what a live manager's log holds, one line of JSON an event.

The first line says what the run was; each other line has ``time``, ``kind`` and ``event``, the
cause of a step before what was decided of it. ``replay`` reads it again.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from wharfinger import __version__
from wharfinger.core import events as ev
from wharfinger.core.codec import encode_event
from wharfinger.errors import InvalidInput
from wharfinger.files.atomic import check_output
from wharfinger.runtime.replay import LoggedEvent

FORMAT = 1
_EVENT = b'"event":'


class Recording:
    """A log that is being written."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    @classmethod
    @contextmanager
    def open(cls, path: Path, run: Mapping[str, object]) -> "Iterator[Recording]":
        """Write to a file, which is there under its name only once all is written.

        ``run`` is what ``read_recording`` gives back.

        Raises:
            InvalidInput: It can't be written there.
        """
        path = check_output("--record", str(path))
        part = path.with_name(path.name + ".part")
        head = {"wharfinger": __version__, "format": FORMAT, "run": dict(run)}
        try:
            with part.open("wb") as file:
                file.write(json.dumps(head).encode() + b"\n")
                yield cls(file)
            part.replace(path)
        except OSError as error:
            raise InvalidInput(f"--record {path}: {error.strerror}") from error
        finally:
            with suppress(OSError):
                part.unlink(missing_ok=True)

    def write(self, time: float, events: Iterable[ev.Event]) -> None:
        """The events of one step."""
        for event in events:
            kind, payload = encode_event(event)
            head = f'{{"time":{time!r},"kind":"{kind}","event":'.encode()
            self._file.write(head + payload + b"}\n")


def read_recording(path: Path) -> tuple[dict[str, Any], Iterator[LoggedEvent]]:
    """What the run was, and its log.

    Raises:
        InvalidInput: The file can't be read, or is none of these.
    """
    try:
        with path.open("rb") as lines:
            head = json.loads(next(lines, b""))
    except OSError as error:
        raise InvalidInput(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise InvalidInput(f"{path}: its first line is not that of a recorded run") from error
    told = isinstance(head, dict) and isinstance(head.get("run"), dict)
    if not told or head.get("format") != FORMAT:
        raise InvalidInput(f"{path}: not a run recorded by wharfinger simulate --record")
    return head["run"], _entries(path)


def _entries(path: Path) -> Iterator[LoggedEvent]:
    with path.open("rb") as lines:
        next(lines)
        for number, line in enumerate(lines, 1):
            try:
                told = json.loads(line)
                payload = line[line.index(_EVENT) + len(_EVENT) : line.rindex(b"}")]
                yield LoggedEvent(number, told["time"], told["kind"], payload)
            except (ValueError, KeyError, TypeError) as error:
                raise InvalidInput(f"{path}:{number + 1}: not an event: {error}") from error
