"""New lines of a program's output or of a file; of much output, the newest 64 KiB."""

import os
import re
import stat
from pathlib import Path

from wharfinger.errors import NotFound
from wharfinger.files.atomic import closing_fd
from wharfinger.host.run_dir import read_output

CHUNK_BYTES = 65536
LUMP_BYTES = 4096
"""What a program's library writes at once that buffers its output: as many, or a multiple."""
_LINE_END = re.compile(rb"[\r\n]+")


class LineStream:
    """Splits bytes into whole lines, also at the carriage returns of progress bars."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes, *, after_gap: bool = False) -> list[str]:
        """The lines that are whole now; after a gap the first piece is no line."""
        if not data:
            return []
        *whole, rest = _LINE_END.split(data if after_gap else self._rest + data)
        if after_gap:
            whole = whole[1:]
        self._rest = rest[-CHUNK_BYTES:]
        return [line.decode(errors="replace") for line in whole if line]


class Growth:
    """How what is read grows; ``in_lumps``: as the output of a program that buffers it does."""

    def __init__(self) -> None:
        self.begun = False
        self.in_lumps = False

    def observe(self, grown_bytes: int) -> None:
        """Take in by how much it has grown."""
        if grown_bytes > 0:
            self.begun, self.in_lumps = True, grown_bytes % LUMP_BYTES == 0


class OutputStream:
    """What a program under a supervisor prints; ``whole`` = from its beginning, leaving out none.

    ``offset`` is where it reads on, from the first byte; negative = it has not begun.
    """

    def __init__(self, run_dir: Path, *, whole: bool = False) -> None:
        self.growth = Growth()
        self.offset = 0 if whole else -CHUNK_BYTES
        self._run_dir = run_dir
        self._whole = whole
        self._lines = LineStream()

    @property
    def run_dir(self) -> Path:
        """Of the program."""
        return self._run_dir

    def read(self) -> list[str]:
        """The lines since the last call."""
        try:
            data, offset = read_output(self._run_dir, self.offset, CHUNK_BYTES)
            gap = self.offset >= 0 and offset - len(data) > self.offset
            if (
                len(data) == CHUNK_BYTES and not self._whole
            ):  # there may be more, of which only the end matters
                newest, end = read_output(self._run_dir, -CHUNK_BYTES, CHUNK_BYTES)
                if end > offset:
                    data, offset, gap = newest, end, True
        except NotFound as error:
            raise FileNotFoundError(2, "its output is gone") from error
        self.growth.observe(offset - max(0, self.offset))
        if data or self.offset >= 0:
            self.offset = offset
        return self._lines.feed(data, after_gap=gap)


class LoadStream:
    """What a load generator prints that is restarted repeatedly, each time in a new run.

    ``number`` is the newest run's, -1 before the first.
    """

    def __init__(self, prefix: Path) -> None:
        self.number = -1
        self._prefix = prefix
        self._stream: OutputStream | None = None

    @property
    def growth(self) -> Growth:
        """The newest run's."""
        return self._stream.growth if self._stream else Growth()

    @property
    def run_dir(self) -> Path | None:
        """The newest run's."""
        return self._stream.run_dir if self._stream else None

    def read(self) -> list[str]:
        """The lines since the last call, of all runs that still exist."""
        lines = self._rest()
        for number in self._later():
            self.number = number
            self._stream = OutputStream(self._prefix.with_name(f"{self._prefix.name}{number}"))
            lines += self._rest()
        return lines

    def _rest(self) -> list[str]:
        try:
            return self._stream.read() if self._stream else []
        except FileNotFoundError:
            return []

    def _later(self) -> list[int]:
        if not self._prefix.parent.is_dir():
            return []
        paths, first = self._prefix.parent.iterdir(), len(self._prefix.name)
        ends = (path.name[first:] for path in paths if path.name.startswith(self._prefix.name))
        numbers = (int(end) for end in ends if end.isdecimal())
        return sorted(number for number in numbers if number > self.number)


class FileStream:
    """Lines of a regular file, which may be cut, or replaced by another."""

    def __init__(self, path: Path) -> None:
        self.growth = Growth()
        self._path = path
        self._identity: tuple[int, int] | None = None
        self._offset = 0
        self._lines = LineStream()

    def read(self) -> list[str]:
        """The lines since the last call."""
        # A FIFO or a terminal in its place must neither block nor become ours.
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        with closing_fd(os.open(self._path, flags)) as descriptor:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise OSError(22, "it is no regular file")
            identity = (status.st_dev, status.st_ino)
            if identity != self._identity or status.st_size < self._offset:
                self._identity, self._offset, self._lines = identity, 0, LineStream()
            begin = max(self._offset, status.st_size - CHUNK_BYTES)
            data = os.pread(descriptor, CHUNK_BYTES, begin)
        self.growth.observe(begin + len(data) - self._offset)
        gap, self._offset = begin > self._offset, begin + len(data)
        return self._lines.feed(data, after_gap=gap)
