"""A key-value server that speaks Redis' protocol; ``redis-benchmark -t set,get`` drives it too.

Values from 1 KiB on are kept compressed with a checksum, so a read of a large value is real work
(about 0.7 ms for 256 KiB of text). One thread, so one CPU at most. ``--fill N`` makes N values of
``--value-bytes`` at the start, ``key:0`` to ``key:N-1``.
"""

import argparse
import sys
import time
import zlib
from collections.abc import Callable
from math import inf

from wharfinger.catalog.programs import resp
from wharfinger.catalog.programs.serving import Connection, add_address, serve
from wharfinger.catalog.programs.steps import sample_text, whole

COMPRESSED_FROM_BYTES = 1024
LEVEL = 3
OK = b"+OK\r\n"


class CommandRefused(Exception):
    """A command can't be carried out; its message goes to the client."""


class KeyValueStore:
    """Keys, values and when they lapse.

    >>> store = KeyValueStore()
    >>> store.set(b"a", b"x" * 5000)
    >>> store.get(b"a") == b"x" * 5000, store.get(b"b")
    (True, None)
    """

    def __init__(self) -> None:
        # Whether it is compressed, its checksum, what is kept, and when it lapses.
        self._values: dict[bytes, tuple[bool, int, bytes, float]] = {}

    def set(self, key: bytes, value: bytes, seconds: float = inf) -> None:
        """Keep a value, for so long or for good."""
        large = len(value) >= COMPRESSED_FROM_BYTES
        kept = zlib.compress(value, LEVEL) if large else value
        self._values[key] = (large, zlib.crc32(value), kept, time.monotonic() + seconds)

    def get(self, key: bytes) -> bytes | None:
        """The value as set; ``None`` = none; ``CommandRefused``: its checksum does not fit."""
        if not self.has(key):
            return None
        large, checksum, kept, _ = self._values[key]
        value = zlib.decompress(kept) if large else kept
        if zlib.crc32(value) != checksum:
            raise CommandRefused("the value's checksum does not fit")
        return value

    def has(self, key: bytes) -> bool:
        """Whether there is a value that has not lapsed."""
        if key in self._values and time.monotonic() >= self._values[key][-1]:
            self.delete(key)
        return key in self._values

    def delete(self, key: bytes) -> bool:
        """Forget a value; whether there was one."""
        return self._values.pop(key, None) is not None

    def clear(self) -> None:
        """Forget all."""
        self._values.clear()

    def __len__(self) -> int:
        return len(self._values)


class Commands:
    """What clients may ask for, by name."""

    def __init__(self, store: KeyValueStore) -> None:
        self._store = store
        self._known: dict[bytes, tuple[int, Callable[[list[bytes]], bytes]]] = {
            b"PING": (0, lambda words: resp.bulk(words[0]) if words else b"+PONG\r\n"),
            b"ECHO": (1, lambda words: resp.bulk(words[0])),
            b"GET": (1, lambda words: resp.bulk(store.get(words[0]))),
            b"SET": (2, self._set),
            b"MGET": (1, lambda words: resp.array([resp.bulk(store.get(k)) for k in words])),
            b"MSET": (2, self._mset),
            b"DEL": (1, lambda words: resp.integer(sum(store.delete(key) for key in words))),
            b"EXISTS": (1, lambda words: resp.integer(sum(store.has(key) for key in words))),
            b"INCR": (1, lambda words: self._add(words[0], 1)),
            b"INCRBY": (2, lambda words: self._add(words[0], _integer(words[1]))),
            b"DBSIZE": (0, lambda _words: resp.integer(len(store))),
            b"FLUSHALL": (0, self._clear),
            b"FLUSHDB": (0, self._clear),
            b"SELECT": (1, self._select),
            b"CONFIG": (1, lambda _words: resp.array([])),
            b"COMMAND": (0, lambda _words: resp.array([])),
        }

    def answer(self, words: list[bytes]) -> bytes:
        """The answer to one command; an error is an answer too."""
        name = words[0].upper()
        fewest, call = self._known.get(name, (0, None))
        shown = name.decode("latin-1")[:40]
        if call is None:
            return resp.error(f"unknown command '{shown}'")
        if len(words) - 1 < fewest:
            return resp.error(f"wrong number of arguments for '{shown.lower()}' command")
        try:
            return call(words[1:])
        except CommandRefused as refusal:
            return resp.error(str(refusal))

    def _set(self, words: list[bytes]) -> bytes:
        key, value, *options = words
        seconds = inf
        while options:
            option = options.pop(0).upper()
            if option in (b"EX", b"PX") and options:
                seconds = _integer(options.pop(0)) / (1 if option == b"EX" else 1000)
                if seconds <= 0:
                    raise CommandRefused("invalid expire time in 'set' command")
            elif option in (b"NX", b"XX"):
                if self._store.has(key) == (option == b"NX"):
                    return resp.bulk(None)
            else:
                raise CommandRefused("syntax error")
        self._store.set(key, value, seconds)
        return OK

    def _mset(self, words: list[bytes]) -> bytes:
        if len(words) % 2:
            raise CommandRefused("wrong number of arguments for 'mset' command")
        for key, value in zip(words[::2], words[1::2], strict=True):
            self._store.set(key, value)
        return OK

    def _add(self, key: bytes, much: int) -> bytes:
        value = _integer(self._store.get(key) or b"0") + much
        self._store.set(key, b"%d" % value)
        return resp.integer(value)

    def _clear(self, _words: list[bytes]) -> bytes:
        self._store.clear()
        return OK

    def _select(self, words: list[bytes]) -> bytes:
        if _integer(words[0]) != 0:
            raise CommandRefused("DB index is out of range")
        return OK


def _integer(text: bytes) -> int:
    try:
        value = int(text)
    except ValueError:
        value = 1 << 63
    if not -(1 << 63) <= value < 1 << 63:
        raise CommandRefused("value is not an integer or out of range")
    return value


class KeyValueConnection(Connection):
    """One client; commands may follow each other without waiting (pipelining)."""

    def __init__(self, commands: Commands) -> None:
        self._commands = commands
        self._reader = resp.Reader()

    def data_received(self, data: bytes) -> None:
        """Answer every command that is whole, in one write."""
        self._reader.feed(data)
        answers, is_over = [], False
        try:
            while not is_over and (words := self._reader.command()) is not None:
                is_over = bool(words) and words[0].upper() == b"QUIT"
                if words:
                    answers.append(OK if is_over else self._commands.answer(words))
        except resp.ProtocolError as error:
            answers.append(resp.error(f"Protocol error: {error}"))
            is_over = True
        self.transport.write(b"".join(answers))
        if is_over:
            self.transport.close()


def fill(store: KeyValueStore, count: int, value_bytes: int) -> None:
    """Values to read, no two alike."""
    text = sample_text(value_bytes + count)
    for number in range(count):
        store.set(b"key:%d" % number, text[number : number + value_bytes])


def main() -> int:
    """Serve until stopped."""
    parser = argparse.ArgumentParser(prog="keyvalue_service", description="Serve keys and values.")
    add_address(parser)
    add = parser.add_argument
    add("--fill", type=whole, default=0, metavar="N", help="values to begin with (default: 0)")
    add("--value-bytes", type=whole, default=262144, metavar="N", help="of these (default: 262144)")
    arguments = parser.parse_args()
    store = KeyValueStore()
    fill(store, arguments.fill, arguments.value_bytes)
    commands = Commands(store)
    return serve(lambda: KeyValueConnection(commands), arguments.host, arguments.port)


if __name__ == "__main__":
    sys.exit(main())
