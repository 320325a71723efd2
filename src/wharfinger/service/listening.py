"""The sockets on which the API listens, how clients connect to them, and the token for TCP.

``cli/up.py`` makes them, ``server.py`` serves them. The Unix socket is for the manager's own user;
TCP is for clients with the token, and exists only when both are given. Every client command
imports this, so it imports next to nothing.
"""

import os
import socket
import stat
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from wharfinger.errors import Conflict, InvalidInput

TOKEN_VARIABLE = "WHARFINGER_TOKEN"
MIN_TOKEN_CHARACTERS = 16
MAX_TOKEN_BYTES = 4096
BACKLOG = 512
_CREDENTIALS = struct.Struct("3i")
"""``struct ucred``: pid, uid, gid."""
MAX_PATH_BYTES = 107
"""Of a socket: ``sun_path`` is 108 bytes, and the kernel wants a NUL at its end."""


@contextmanager
def reachable(path: Path) -> Iterator[str]:
    """A name for the socket at ``path`` that ``bind`` and ``connect`` take.

    A path that is too long is reached through its directory, named by an open descriptor.
    """
    if len(os.fsencode(path)) <= MAX_PATH_BYTES:
        yield str(path)
        return
    directory = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{directory}/{path.name}"
    finally:
        os.close(directory)


def connect(path: Path, timeout_seconds: float) -> socket.socket:
    """A connection to the socket at ``path``; ``OSError`` where no process listens there."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(timeout_seconds)
        with reachable(path) as name:
            connection.connect(name)
    except BaseException:
        connection.close()
        raise
    return connection


def peer_pid(connection: socket.socket) -> int:
    """The process at the other end of a Unix socket; 0 = unknown, or of another machine."""
    if connection.family != socket.AF_UNIX:
        return 0
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(raw)[0])


def listen_unix(path: Path) -> socket.socket:
    """A listening Unix socket of mode 0600.

    The caller holds the state directory's lock, so a socket that lies there is a dead manager's and
    is removed; ``Conflict`` where something else is in the way.
    """
    with suppress(FileNotFoundError):
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise Conflict(f"{path} is in the way and is no socket; move it elsewhere")
        path.unlink()
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    previous = os.umask(0o177)
    try:
        with reachable(path) as name:
            listener.bind(name)
    except BaseException:
        listener.close()
        raise
    finally:
        os.umask(previous)
    listener.listen(BACKLOG)
    listener.setblocking(False)
    return listener


def parse_listen(given: str) -> tuple[str, int]:
    """``HOST:PORT`` as a pair, an IPv6 host in brackets; ``InvalidInput`` for other forms."""
    host, colon, port = given.rpartition(":")
    bare = host.removeprefix("[").removesuffix("]")
    if not (colon and bare and port.isascii() and port.isdigit() and int(port) <= 65535):
        raise InvalidInput(f"--listen: {given!r} is not HOST:PORT; write e.g. 127.0.0.1:7777")
    if ":" in bare and not host.startswith("["):
        raise InvalidInput(f"--listen: {given!r}: write an IPv6 address as [{bare}]:{port}")
    return bare, int(port)


def listen_tcp(host: str, port: int) -> socket.socket:
    """A listening TCP socket; ``InvalidInput`` for a bad host, ``Conflict`` for a used port."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.create_server((host, port), family=family, backlog=BACKLOG)
    except socket.gaierror as error:
        raise InvalidInput(f"--listen: {host!r}: {error.strerror}; name an address") from None
    except OSError as error:
        raise Conflict(f"--listen: {host}:{port}: {error.strerror}; name another") from None
    listener.setblocking(False)
    return listener


def find_token(file: Path | None, environment: Mapping[str, str]) -> str:
    """The token for TCP, of the file or else the environment; ``InvalidInput`` for a bad one."""
    if file is not None:
        token, place = read_token(file), f"--token-file: {file}"
    else:
        token, place = environment.get(TOKEN_VARIABLE, ""), TOKEN_VARIABLE
    if not token:
        raise InvalidInput(f"--listen needs a token: use --token-file FILE or {TOKEN_VARIABLE}")
    check_token(token, place)
    return token


def check_token(token: str, place: str) -> None:
    """Raise ``InvalidInput`` where a token, which was given at ``place``, is not fit for one."""
    mend = "make one by `openssl rand -hex 16`"
    if not token.isascii() or not token.isprintable() or " " in token:
        raise InvalidInput(f"{place}: a token is ASCII without spaces; {mend}")
    if len(token) < MIN_TOKEN_CHARACTERS:
        needed = f"at least {MIN_TOKEN_CHARACTERS} are needed"
        raise InvalidInput(f"{place}: the token has {len(token)} characters, {needed}; {mend}")


def read_token(file: Path) -> str:
    """What a token file holds; ``InvalidInput`` where others may read it, or it can't be read."""
    try:
        with file.open("rb") as stream:
            mode = os.fstat(stream.fileno()).st_mode
            content = stream.read(MAX_TOKEN_BYTES)
    except OSError as error:
        raise InvalidInput(f"--token-file: {file}: {error.strerror}; name a file") from None
    if mode & 0o077:
        raise InvalidInput(f"--token-file: {file} is open to others; run chmod 600 {file}")
    return content.decode(errors="replace").strip()
