"""Hashes: integer work on data that stays in the cache, or (``stream``) comes from memory."""

import hashlib
import sys
import zlib
from collections.abc import Callable
from functools import partial

from wharfinger.catalog.programs.steps import Step, run_one_of, sample_text

MEBIBYTE = 1 << 20


def _over_and_over(name: str, times: int) -> Step:
    data = sample_text(MEBIBYTE)

    def step(_number: int) -> object:
        state = hashlib.new(name)
        for _ in range(times):
            state.update(data)
        return state.digest()

    return step


def _password() -> Step:
    return lambda _number: hashlib.pbkdf2_hmac("sha256", b"a secret", b"salt", 160_000)


def _scrypt() -> Step:
    return lambda _number: hashlib.scrypt(
        b"a secret", salt=b"salt", n=1 << 14, r=8, p=1, maxmem=64 * MEBIBYTE
    )


def _stream() -> Step:
    data = sample_text(MEBIBYTE) * 64
    return lambda _number: zlib.crc32(data, zlib.crc32(data))


ALGORITHMS: dict[str, Callable[[], Step]] = {
    "sha256": partial(_over_and_over, "sha256", 56),
    "sha512": partial(_over_and_over, "sha512", 40),
    "blake2b": partial(_over_and_over, "blake2b", 44),
    "md5": partial(_over_and_over, "md5", 24),
    "pbkdf2": _password,
    "scrypt": _scrypt,
    "stream": _stream,
}

if __name__ == "__main__":
    sys.exit(run_one_of("digest", "Hash data.", "algorithm", ALGORITHMS))
