"""Compresses 128 to 1280 KiB of text a step; CPU and cache, hardly any system calls.

``gzip``, ``xz`` and ``zstd`` are the machine's programs, a new process each step; ``zlib``,
``bz2`` and ``lzma`` are Python's modules.
"""

import argparse
import bz2
import lzma
import subprocess
import sys
import zlib
from collections.abc import Callable

from wharfinger.catalog.programs.steps import Step, add_total, repeat, sample_text

KIBIBYTE = 1024
IN_PROCESS: dict[str, tuple[int, Callable[[bytes], bytes]]] = {
    "zlib": (768, lambda data: zlib.compress(data, 6)),
    "bz2": (640, lambda data: bz2.compress(data, 9)),
    "lzma": (128, lambda data: lzma.compress(data, preset=4)),
}
PROGRAMS = {
    "gzip": (512, ("gzip", "-6")),
    "xz": (128, ("xz", "-4", "-T1")),
    "zstd": (1280, ("zstd", "-q", "-9")),
}


def step_of(algorithm: str) -> Step:
    """The step of an algorithm; its text is made once."""
    if algorithm in PROGRAMS:
        size, command = PROGRAMS[algorithm]
        return _piped(command, sample_text(size * KIBIBYTE))
    size, compressed = IN_PROCESS[algorithm]
    text = sample_text(size * KIBIBYTE)
    return lambda _number: compressed(text)


def _piped(command: tuple[str, ...], text: bytes) -> Step:
    return lambda _number: subprocess.run(
        command, input=text, stdout=subprocess.DEVNULL, check=True
    )


def main() -> int:
    """Compress until the total is reached."""
    parser = argparse.ArgumentParser(prog="compress", description="Compress text.")
    parser.add_argument("--algorithm", choices=[*IN_PROCESS, *PROGRAMS], default="zlib")
    add_total(parser)
    arguments = parser.parse_args()
    return repeat(step_of(arguments.algorithm), arguments.total)


if __name__ == "__main__":
    sys.exit(main())
