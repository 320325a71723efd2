"""Hashes: integer work on data that stays in the cache, or (``stream``) comes from memory."""

import argparse
import hashlib
import sys
import zlib

from wharfinger.catalog.programs.steps import Step, add_total, repeat, sample_text

MEBIBYTE = 1 << 20


def _over_and_over(name: str, size_bytes: int, times: int) -> Step:
    data = sample_text(size_bytes)

    def step(_number: int) -> object:
        state = hashlib.new(name)
        for _ in range(times):
            state.update(data)
        return state.digest()

    return step


def _password(_number: int) -> object:
    return hashlib.pbkdf2_hmac("sha256", b"a secret", b"salt", 160_000)


def _scrypt(_number: int) -> object:
    return hashlib.scrypt(b"a secret", salt=b"salt", n=1 << 14, r=8, p=1, maxmem=64 * MEBIBYTE)


def _stream() -> Step:
    data = sample_text(MEBIBYTE) * 64
    return lambda _number: zlib.crc32(data, zlib.crc32(data))


ALGORITHMS = {
    "sha256": lambda: _over_and_over("sha256", MEBIBYTE, 56),
    "sha512": lambda: _over_and_over("sha512", MEBIBYTE, 40),
    "blake2b": lambda: _over_and_over("blake2b", MEBIBYTE, 44),
    "md5": lambda: _over_and_over("md5", MEBIBYTE, 24),
    "pbkdf2": lambda: _password,
    "scrypt": lambda: _scrypt,
    "stream": _stream,
}


def main() -> int:
    """Hash until the total is reached."""
    parser = argparse.ArgumentParser(prog="digest", description="Hash data.")
    parser.add_argument("--algorithm", choices=list(ALGORITHMS), default="sha256")
    add_total(parser)
    arguments = parser.parse_args()
    return repeat(ALGORITHMS[arguments.algorithm](), arguments.total)


if __name__ == "__main__":
    sys.exit(main())
