"""Compresses 128 to 1280 KiB of text a step; CPU and cache, hardly any system calls."""

import bz2
import lzma
import subprocess
import sys
import zlib
from collections.abc import Callable
from functools import partial

from wharfinger.catalog.programs.steps import Step, run_one_of, sample_text

KIBIBYTE = 1024


def _in_process(kibibytes: int, compressed: Callable[[bytes], bytes]) -> Step:
    text = sample_text(kibibytes * KIBIBYTE)
    return lambda _number: compressed(text)


def _piped(kibibytes: int, *command: str) -> Step:
    text = sample_text(kibibytes * KIBIBYTE)
    return lambda _number: subprocess.run(
        command, input=text, stdout=subprocess.DEVNULL, check=True
    )


ALGORITHMS = {
    "zlib": partial(_in_process, 768, lambda data: zlib.compress(data, 6)),
    "bz2": partial(_in_process, 640, lambda data: bz2.compress(data, 9)),
    "lzma": partial(_in_process, 128, lambda data: lzma.compress(data, preset=4)),
    "gzip": partial(_piped, 512, "gzip", "-6"),
    "xz": partial(_piped, 128, "xz", "-4", "-T1"),
    "zstd": partial(_piped, 1280, "zstd", "-q", "-9"),
}

if __name__ == "__main__":
    sys.exit(run_one_of("compress", "Compress text.", "algorithm", ALGORITHMS))
