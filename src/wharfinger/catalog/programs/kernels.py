"""Kernels of Python's library and of NumPy, each run until it is stopped.

Prints ``done=N`` after each step, which takes 5 to 30 ms of CPU time, on data of a fixed seed.
"""

import argparse
import decimal
import difflib
import hashlib
import json
import multiprocessing
import pickle
import random
import re
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from xml.etree import ElementTree

from wharfinger.catalog.programs.numeric import limit_threads
from wharfinger.catalog.programs.steps import Step, repeat

SEED = 20261121


def main() -> None:
    """Run the kernel that is named; never returns."""
    parser = argparse.ArgumentParser(
        prog="wharfinger.catalog.programs.kernels", description=__doc__
    )
    parser.add_argument("name", choices=list(KERNELS))
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    limit_threads(arguments.threads)
    repeat(KERNELS[arguments.name](arguments.threads))


def _text(size: int) -> str:
    rng = random.Random(SEED)
    words = ["".join(rng.choices("abcdefghij", k=rng.randint(2, 9))) for _ in range(500)]
    return " ".join(rng.choices(words, k=size // 6))


def _rows(count: int) -> list[dict[str, object]]:
    rng = random.Random(SEED)
    return [
        {"id": i, "price": rng.random(), "name": f"n{rng.randrange(10**6)}", "tags": [i % 7, i % 5]}
        for i in range(count)
    ]


def _json(_threads: int) -> Step:
    rows = _rows(2500)
    return lambda _number: json.loads(json.dumps(rows))


def _re(_threads: int) -> Step:
    pattern, text = re.compile(r"\b(\w+)([aeg]{2,}|hi?j)(\w*)\s\1"), _text(160_000)
    return lambda _number: len(pattern.findall(text))


def _pickle(_threads: int) -> Step:
    rows = _rows(5000)
    return lambda _number: pickle.loads(pickle.dumps(rows))


def _deflate(_threads: int) -> Step:
    data = _text(160_000).encode()

    def step(_number: int) -> int:
        coder, decoder = zlib.compressobj(6), zlib.decompressobj()
        pieces = (coder.compress(data[i : i + 1024]) for i in range(0, len(data), 1024))
        return sum(len(decoder.decompress(piece)) for piece in pieces)

    return step


def _pbkdf2(_threads: int) -> Step:
    return lambda _number: hashlib.pbkdf2_hmac("sha256", b"password", b"salt", 20_000)


def _threaded_hash(threads: int) -> Step:
    blocks = [random.Random(SEED + i).randbytes(1 << 21) for i in range(4)]
    pool = ThreadPoolExecutor(threads)
    return lambda _number: list(pool.map(lambda block: hashlib.sha3_256(block).digest(), blocks))


def _pool(threads: int) -> Step:
    pool = multiprocessing.get_context("fork").Pool(threads)
    return lambda _number: pool.map(_count_primes, [4000] * 8)


def _count_primes(limit: int) -> int:
    return sum(all(n % d for d in range(2, int(n**0.5) + 1)) for n in range(2, limit))


def _difflib(_threads: int) -> Step:
    first, rng = _text(20_000).split(), random.Random(SEED)
    second = [word if rng.random() < 0.9 else "changed" for word in first]
    return lambda _number: difflib.SequenceMatcher(None, first, second).ratio()


def _decimal(_threads: int) -> Step:
    context, numbers = decimal.Context(prec=600), [decimal.Decimal(n) for n in range(2, 102)]
    return lambda _number: [number.sqrt(context) for number in numbers]


def _xml(_threads: int) -> Step:
    root = ElementTree.Element("rows")
    for row in _rows(1200):
        ElementTree.SubElement(root, "row", {key: str(value) for key, value in row.items()})
    document = ElementTree.tostring(root)
    return lambda _number: ElementTree.tostring(ElementTree.fromstring(document))


def _objects(_threads: int) -> Step:
    rng = random.Random(SEED)
    keys = [rng.randrange(10**9) for _ in range(20_000)]
    return lambda _number: sorted({key: (key % 97, str(key)) for key in keys}.values())


def _ast(_threads: int) -> Step:
    lines = (f"def f{i}(x):\n    return [x + {i}, (x, {i}), x * {i} % 7]\n" for i in range(500))
    source = "".join(lines)
    return lambda _number: compile(source, "generated", "exec")


def _numpy(name: str, _threads: int) -> Step:
    import numpy as np  # noqa: PLC0415 - after the threads are limited

    rng = np.random.default_rng(SEED)
    match name:
        case "matmul":
            a, b = rng.random((2, 700, 700))
            product = np.empty_like(a)
            return lambda _number: np.matmul(a, b, out=product)
        case "svd":
            matrix = rng.random((150, 150))
            return lambda _number: np.linalg.svd(matrix)
        case "fft":
            signals = rng.random((256, 8192))
            return lambda _number: np.fft.rfft(signals, axis=1)
        case "elementwise":  # Arrays that fit in no cache.
            c, d = rng.random((2, 4_000_000))
            out = np.empty_like(c)
            return lambda _number: np.add(np.multiply(c, d, out=out), c, out=out)
        case "gather":  # In random order, which misses caches and translations.
            values, order = rng.random(6_000_000), rng.integers(0, 6_000_000, 400_000)
            return lambda _number: float(values[order].sum())
        case "argsort":
            unsorted = rng.random(200_000)
            return lambda _number: np.argsort(unsorted, kind="stable")
    # "exponential": transcendental functions of an array that fits in a cache.
    x = rng.random(20_000)
    return lambda _number: [np.exp(np.sin(x)) * np.log1p(x) for _ in range(25)]


NUMPY = ("matmul", "svd", "fft", "elementwise", "gather", "argsort", "exponential")
KERNELS: dict[str, Callable[[int], Step]] = {
    "json": _json,
    "re": _re,
    "pickle": _pickle,
    "deflate": _deflate,
    "pbkdf2": _pbkdf2,
    "threaded-hash": _threaded_hash,
    "pool": _pool,
    "difflib": _difflib,
    "decimal": _decimal,
    "xml": _xml,
    "objects": _objects,
    "ast": _ast,
    **{name: partial(_numpy, name) for name in NUMPY},
}
"""By name; each is given the number of threads."""


if __name__ == "__main__":
    main()
