"""Small programs that a source of interference is let loose on, each of one resource.

Started by ``victims`` as ``python victim.py WORK ARGUMENT...`` and told to tell: for each line of
input it prints how much it has done so far. It ends with its input. ``enter`` puts itself into
control groups first and becomes another program.
"""

import hashlib
import mmap
import os
import random
import select
import socket
import sys
from collections.abc import Callable

BLOCK_BYTES = 256 << 10
PIECE_BYTES = 64 << 10


def hash_blocks() -> Callable[[], int]:
    """Arithmetic in the first-level cache."""
    block = bytes(16 << 10)

    def work() -> int:
        hashlib.sha256(block).digest()
        return 1

    return work


def read_blocks(path: str) -> Callable[[], int]:
    """Random blocks of a file, past the page cache."""
    size = os.path.getsize(path)  # noqa: PTH202 - nothing else of pathlib is needed here
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECT)
    buffer = mmap.mmap(-1, BLOCK_BYTES)

    def work() -> int:
        return os.preadv(descriptor, [buffer], random.randrange(size // BLOCK_BYTES) * BLOCK_BYTES)

    return work


def read_cached(path: str) -> Callable[[], int]:
    """Random pieces of a file through the page cache, which holds it as long as there is memory."""
    pieces = os.path.getsize(path) // PIECE_BYTES  # noqa: PTH202
    descriptor = os.open(path, os.O_RDONLY)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)
    for piece in range(pieces):
        os.pread(descriptor, PIECE_BYTES, piece * PIECE_BYTES)

    def work() -> int:
        os.pread(descriptor, PIECE_BYTES, random.randrange(pieces) * PIECE_BYTES)
        return 1

    return work


def ask(host: str, port: str) -> Callable[[], int]:
    """Requests of 16 KiB to a peer that echoes."""
    request = bytes(16 << 10)
    peer = socket.create_connection((host, int(port)), timeout=10)

    def work() -> int:
        peer.sendall(request)
        left = len(request)
        while left > 0:
            got = len(peer.recv(left))
            if got == 0:
                sys.exit("the peer is gone")
            left -= got
        return 1

    return work


WORK: dict[str, Callable[..., Callable[[], int]]] = {
    "hash": hash_blocks,
    "blocks": read_blocks,
    "cached": read_cached,
    "ask": ask,
}


def main(argv: list[str]) -> None:
    """Work until the input ends."""
    kind, *rest = argv
    if kind == "enter":
        at = rest.index("--")
        for file in rest[:at]:
            with open(file, "w") as procs:  # noqa: PTH123
                procs.write(str(os.getpid()))
        os.execv(rest[at + 1], rest[at + 1 :])
    work, done = WORK[kind](*rest), 0
    while True:
        done += work()
        if select.select([0], [], [], 0)[0]:
            if not os.read(0, 64):
                return
            os.write(1, b"%d\n" % done)


if __name__ == "__main__":
    main(sys.argv[1:])
