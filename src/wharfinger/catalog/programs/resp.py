"""Redis' protocol (RESP 2), both ways.

Source: https://redis.io/docs/latest/develop/reference/protocol-spec/
"""

MAX_BULK_BYTES = 64 << 20
MAX_ARGUMENTS = 1 << 16
MAX_INLINE_BYTES = 64 << 10


class ProtocolError(Exception):
    """The client does not speak the protocol; the connection can't go on."""


class Reader:
    r"""Commands out of a stream of bytes that comes in any pieces.

    >>> reader = Reader()
    >>> reader.feed(b"*2\r\n$3\r\nGET\r\n$1\r\n")
    >>> reader.command() is None
    True
    >>> reader.feed(b"k\r\nPING\r\n")
    >>> reader.command(), reader.command(), reader.command()
    ([b'GET', b'k'], [b'PING'], None)
    """

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._wanted = 0

    def feed(self, data: bytes) -> None:
        """More bytes."""
        self._buffer += data

    def command(self) -> list[bytes] | None:
        """The next whole command, else ``ProtocolError``; ``None`` = more bytes are needed.

        An empty line is ``[]``.
        """
        if len(self._buffer) < self._wanted or not self._buffer:
            return None
        self._wanted = 0
        line = self._line(0)
        if line is None:
            return None
        if not line.startswith(b"*"):
            del self._buffer[: len(line) + 2]
            return line.split()
        return self._array(_count(line[1:], MAX_ARGUMENTS), len(line) + 2)

    def _array(self, count: int, at: int) -> list[bytes] | None:
        words: list[bytes] = []
        for _ in range(count):
            line = self._line(at)
            if line is None:
                return None
            if not line.startswith(b"$"):
                raise ProtocolError(f"expected '$', got {line[:1].decode('latin-1')!r}")
            at += len(line) + 2
            size = _count(line[1:], MAX_BULK_BYTES)
            if len(self._buffer) < at + size + 2:
                # Not looked at again before all of it can be there.
                self._wanted = at + size + 2
                return None
            words.append(bytes(self._buffer[at : at + size]))
            at += size + 2
        del self._buffer[:at]
        return words

    def _line(self, at: int) -> bytes | None:
        end = self._buffer.find(b"\r\n", at, at + MAX_INLINE_BYTES)
        if end < 0:
            if len(self._buffer) - at >= MAX_INLINE_BYTES:
                raise ProtocolError("too big inline request")
            return None
        return bytes(self._buffer[at:end])


def _count(text: bytes, limit: int) -> int:
    if not text.isdigit() or int(text[:20]) > limit:
        raise ProtocolError("invalid length")
    return int(text)


def bulk(value: bytes | None) -> bytes:
    r"""A string, or nil.

    >>> bulk(b"ab"), bulk(None)
    (b'$2\r\nab\r\n', b'$-1\r\n')
    """
    return b"$-1\r\n" if value is None else b"$%d\r\n%b\r\n" % (len(value), value)


def array(items: list[bytes]) -> bytes:
    """An array of answers that are already encoded."""
    return b"*%d\r\n%b" % (len(items), b"".join(items))


def integer(value: int) -> bytes:
    """A whole number."""
    return b":%d\r\n" % value


def error(message: str) -> bytes:
    """An error on one line."""
    return b"-ERR %b\r\n" % message.replace("\r", " ").replace("\n", " ").encode()


def command(*words: bytes) -> bytes:
    """What a client sends."""
    return array([bulk(word) for word in words])
