"""Kernels of Python's library and of NumPy, each run until it is stopped.

    python -m wharfinger.catalog.programs.kernels NAME [--threads N]

Prints ``done=N`` after each step, which takes 5 to 30 ms of CPU time. What a kernel works on is
made from a fixed seed. Run as known programs (``catalog.listing``), never imported by them.
"""

import argparse
import os
import random
import sys
from collections.abc import Callable, Iterator, Sequence

Step = Callable[[], object]

SEED = 20261121


def main(argv: Sequence[str] | None = None) -> None:
    """Run the kernel that is named; never returns."""
    parser = argparse.ArgumentParser(
        prog="wharfinger.catalog.programs.kernels", description=__doc__
    )
    parser.add_argument("name", choices=list(KERNELS))
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args(argv)
    # Before NumPy is imported, which reads it once.
    for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[variable] = str(arguments.threads)
    run(KERNELS[arguments.name](arguments.threads))


def run(steps: Iterator[object]) -> None:
    """Count steps as they are done."""
    for done, _ in enumerate(steps, start=1):
        sys.stdout.write(f"done={done}\n")
        sys.stdout.flush()


def _again(step: Step) -> Iterator[object]:
    while True:
        yield step()


# --- Python's library -----------------------------------------------------------------------


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


def json_kernel(_: int) -> Iterator[object]:
    """Write documents and read them again."""
    import json  # noqa: PLC0415 - each kernel loads its own

    rows = _rows(2500)
    return _again(lambda: json.loads(json.dumps(rows)))


def re_kernel(_: int) -> Iterator[object]:
    """Search text for a pattern with alternatives and groups."""
    import re  # noqa: PLC0415

    pattern, text = re.compile(r"\b(\w+)([aeg]{2,}|hi?j)(\w*)\s\1"), _text(160_000)
    return _again(lambda: len(pattern.findall(text)))


def pickle_kernel(_: int) -> Iterator[object]:
    """Objects to bytes and back."""
    import pickle  # noqa: PLC0415

    rows = _rows(5000)
    return _again(lambda: pickle.loads(pickle.dumps(rows)))


def deflate_kernel(_: int) -> Iterator[object]:
    """Compress and restore a stream in small pieces."""
    import zlib  # noqa: PLC0415

    data = _text(160_000).encode()

    def step() -> int:
        coder, decoder = zlib.compressobj(6), zlib.decompressobj()
        pieces = (coder.compress(data[i : i + 1024]) for i in range(0, len(data), 1024))
        return sum(len(decoder.decompress(piece)) for piece in pieces)

    return _again(step)


def pbkdf2_kernel(_: int) -> Iterator[object]:
    """Derive a key from a password."""
    import hashlib  # noqa: PLC0415

    return _again(lambda: hashlib.pbkdf2_hmac("sha256", b"password", b"salt", 20_000))


def threaded_hash_kernel(threads: int) -> Iterator[object]:
    """Hash blocks in threads, which the interpreter's lock lets run side by side."""
    import hashlib  # noqa: PLC0415
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415

    blocks = [random.Random(SEED + i).randbytes(1 << 21) for i in range(4)]
    pool = ThreadPoolExecutor(threads)
    return _again(lambda: list(pool.map(lambda block: hashlib.sha3_256(block).digest(), blocks)))


def pool_kernel(threads: int) -> Iterator[object]:
    """A pool of processes that is handed small tasks."""
    import multiprocessing  # noqa: PLC0415

    pool = multiprocessing.get_context("fork").Pool(threads)
    return _again(lambda: pool.map(_count_primes, [4000] * 8))


def _count_primes(limit: int) -> int:
    return sum(all(n % d for d in range(2, int(n**0.5) + 1)) for n in range(2, limit))


def difflib_kernel(_: int) -> Iterator[object]:
    """Compare two texts word by word."""
    import difflib  # noqa: PLC0415

    first, rng = _text(20_000).split(), random.Random(SEED)
    second = [word if rng.random() < 0.9 else "changed" for word in first]
    return _again(lambda: difflib.SequenceMatcher(None, first, second).ratio())


def decimal_kernel(_: int) -> Iterator[object]:
    """Square roots to many digits."""
    import decimal  # noqa: PLC0415

    context, numbers = decimal.Context(prec=600), [decimal.Decimal(n) for n in range(2, 102)]
    return _again(lambda: [number.sqrt(context) for number in numbers])


def xml_kernel(_: int) -> Iterator[object]:
    """Parse a document and write it again."""
    from xml.etree import ElementTree  # noqa: PLC0415

    root = ElementTree.Element("rows")
    for row in _rows(1200):
        ElementTree.SubElement(root, "row", {key: str(value) for key, value in row.items()})
    document = ElementTree.tostring(root)
    return _again(lambda: ElementTree.tostring(ElementTree.fromstring(document)))


def objects_kernel(_: int) -> Iterator[object]:
    """Make, sort and drop many small objects: the interpreter and its allocator."""
    rng = random.Random(SEED)
    keys = [rng.randrange(10**9) for _ in range(20_000)]

    def step() -> int:
        table = {key: (key % 97, str(key)) for key in keys}
        return len(sorted(table.values()))

    return _again(step)


def ast_kernel(_: int) -> Iterator[object]:
    """Compile source to byte code."""
    lines = (f"def f{i}(x):\n    return [x + {i}, (x, {i}), x * {i} % 7]\n" for i in range(500))
    source = "".join(lines)
    return _again(lambda: compile(source, "generated", "exec"))


# --- NumPy ------------------------------------------------------------------------------------


def matmul_kernel(_: int) -> Iterator[object]:
    """Multiply two matrices; the library's threads are set from outside."""
    import numpy as np  # noqa: PLC0415

    a, b = np.random.default_rng(SEED).random((2, 700, 700))
    out = np.empty_like(a)
    return _again(lambda: np.matmul(a, b, out=out))


def svd_kernel(_: int) -> Iterator[object]:
    """Singular values and vectors."""
    import numpy as np  # noqa: PLC0415

    a = np.random.default_rng(SEED).random((150, 150))
    return _again(lambda: np.linalg.svd(a))


def fft_kernel(_: int) -> Iterator[object]:
    """Fourier transforms of rows."""
    import numpy as np  # noqa: PLC0415

    a = np.random.default_rng(SEED).random((256, 8192))
    return _again(lambda: np.fft.rfft(a, axis=1))


def elementwise_kernel(_: int) -> Iterator[object]:
    """Stream arrays that fit in no cache."""
    import numpy as np  # noqa: PLC0415

    a, b = np.random.default_rng(SEED).random((2, 4_000_000))
    out = np.empty_like(a)

    def step() -> None:
        np.multiply(a, b, out=out)
        np.add(out, a, out=out)

    return _again(step)


def gather_kernel(_: int) -> Iterator[object]:
    """Read an array in random order, which misses caches and translations."""
    import numpy as np  # noqa: PLC0415

    rng = np.random.default_rng(SEED)
    a, order = rng.random(6_000_000), rng.integers(0, 6_000_000, 400_000)
    return _again(lambda: float(a[order].sum()))


def sort_kernel(_: int) -> Iterator[object]:
    """Sort numbers."""
    import numpy as np  # noqa: PLC0415

    a = np.random.default_rng(SEED).random(200_000)
    return _again(lambda: np.argsort(a, kind="stable"))


def exponential_kernel(_: int) -> Iterator[object]:
    """Transcendental functions of an array that fits in a cache."""
    import numpy as np  # noqa: PLC0415

    a = np.random.default_rng(SEED).random(20_000)
    return _again(lambda: [np.exp(np.sin(a)) * np.log1p(a) for _ in range(25)])


KERNELS: dict[str, Callable[[int], Iterator[object]]] = {
    "json": json_kernel,
    "re": re_kernel,
    "pickle": pickle_kernel,
    "deflate": deflate_kernel,
    "pbkdf2": pbkdf2_kernel,
    "threaded-hash": threaded_hash_kernel,
    "pool": pool_kernel,
    "difflib": difflib_kernel,
    "decimal": decimal_kernel,
    "xml": xml_kernel,
    "objects": objects_kernel,
    "ast": ast_kernel,
    "matmul": matmul_kernel,
    "svd": svd_kernel,
    "fft": fft_kernel,
    "elementwise": elementwise_kernel,
    "gather": gather_kernel,
    "argsort": sort_kernel,
    "exponential": exponential_kernel,
}
"""By name; each is given the number of threads and yields after each step."""


if __name__ == "__main__":
    main()
