"""What the known programs work on: generated here from a seed, downloaded from nowhere.

The same seed gives the same bytes on every machine.
"""

import gzip
import random
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from wharfinger.errors import InvalidInput

Maker = Callable[[Path, random.Random], object]

FIXED = Path(__file__).with_name("fixed_inputs")
"""Inputs that are the same for every seed: scripts and configuration files."""
_SYLLABLES = ("ba", "den", "ko", "lis", "mor", "na", "pre", "qui", "ras", "so", "tu", "ver", "wen")
_KIBIBYTE = 1024


def make_input(name: str, directory: Path, seed: int) -> Path:
    """The input of that name in a directory, made whole or not at all; what is there already stays.

    ``InvalidInput``: there is no such input; ``OSError``: it can't be written.
    """
    if name not in MAKERS:
        raise InvalidInput(f"input: {name!r}; there are {', '.join(MAKERS)}")
    path = directory / name
    if not path.exists():
        part = directory / f"{name}.part"
        # Left by an earlier attempt that was killed.
        if part.is_dir():
            shutil.rmtree(part)
        part.unlink(missing_ok=True)
        # Each has its own generator: an input does not depend on which others were made before.
        MAKERS[name](part, random.Random(f"{seed}/{name}"))
        part.rename(path)
    return path


def _vocabulary(rng: random.Random, size: int = 4000) -> list[str]:
    return ["".join(rng.choices(_SYLLABLES, k=rng.randint(1, 4))) for _ in range(size)]


def _words(rng: random.Random, kibibytes: int) -> str:
    """Words as frequent as in a language (Zipf's law), in lines and paragraphs."""
    size_bytes = kibibytes * _KIBIBYTE
    vocabulary = _vocabulary(rng)
    weights = [1 / rank for rank in range(1, len(vocabulary) + 1)]
    # No word is shorter than two letters and its space.
    words = rng.choices(vocabulary, weights, k=size_bytes // 3)
    lines = (" ".join(words[i : i + 12]) for i in range(0, len(words), 12))
    return "\n".join(lines)[: size_bytes - 1] + "\n"


def _access_log(path: Path, rng: random.Random) -> None:
    pages = [f"/{a}/{b}" for a, b in zip(_vocabulary(rng, 200), _vocabulary(rng, 200), strict=True)]
    lines = [
        f"10.{rng.randrange(256)}.{rng.randrange(256)}.{rng.randrange(256)} - - "
        f'[21/Nov/2026:{rng.randrange(24):02}:{rng.randrange(60):02}:07 +0000] "GET '
        f'{rng.choice(pages)} HTTP/1.1" {rng.choice((200, 200, 200, 304, 404, 500))} '
        f"{rng.randrange(100_000)}\n"
        for _ in range(6000)
    ]
    path.write_text("".join(lines))


def _image(path: Path, rng: random.Random) -> None:
    """A portable pixmap: gradients with noise, so that a coder has both to do."""
    width, height = 320, 240
    pixels = bytearray()
    for y in range(height):
        noise = rng.randbytes(width)
        for x in range(width):
            n = noise[x] & 31
            pixels += bytes(((x * 7 // 10 + n) & 255, (y + n) & 255, ((x + y) // 3 + n) & 255))
    path.write_bytes(b"P6\n%d %d\n255\n" % (width, height) + bytes(pixels))


def _tree(path: Path, rng: random.Random) -> None:
    for i in range(20):
        folder = path / f"folder{i:02}"
        folder.mkdir(parents=True)
        for j in range(25):
            file = folder / f"file{j:02}.{rng.choice(('txt', 'log', 'dat'))}"
            file.write_bytes(rng.randbytes(rng.randrange(4096)))


def _documents(path: Path, rng: random.Random) -> None:
    path.mkdir()
    for i in range(100):
        (path / str(i)).write_text(_words(rng, rng.randrange(2, 40)))


def _c_source(rng: random.Random, functions: int, entry: str) -> str:
    body = ""
    for i in range(functions):
        a, b, c = (rng.randrange(3, 1000) for _ in range(3))
        body += (
            f"static unsigned f{i}(unsigned x) {{\n"
            f"  for (unsigned i = 0; i < {a}u; i++) {{\n"
            f"    if (x % {b}u == i) x = x * {c}u + i; else x ^= x >> {i % 13 + 1};\n"
            "  }\n  return x;\n}\n"
        )
    calls = " + ".join(f"f{i}(x)" for i in range(functions))
    return f"{body}unsigned {entry}(unsigned x) {{ return {calls}; }}\n"


def _c_project(path: Path, rng: random.Random) -> None:
    path.mkdir()
    names = [f"part{i}" for i in range(4)]
    for name in names:
        (path / f"{name}.c").write_text(_c_source(rng, 2, name))
    objects = " ".join(f"{name}.o" for name in names)
    rules = "%.o: %.c always\n\tgcc -O1 -c -o $@ $<\n"
    (path / "Makefile").write_text(f"all: {objects}\n{rules}.PHONY: all always\nalways:\n")


def _python_package(path: Path, rng: random.Random) -> None:
    path.mkdir()
    for module in range(2):
        source = ""
        for i in range(40):
            a, b = rng.randrange(1000), rng.randrange(1000)
            source += f"def function{i}(x, y={a}):\n"
            source += f"    values = [x * {b} + k for k in range(y) if k % 3]\n"
            source += "    return {'sum': sum(values), 'text': f'{x} of {y}'}\n\n\n"
        (path / f"module{module}.py").write_text(source)


def _database(path: Path, rng: random.Random) -> None:
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("create table customer (id integer primary key, city text)")
        database.execute("create table purchase (customer integer, amount integer)")
        cities = _vocabulary(rng, 40)
        database.executemany(
            "insert into customer values (?, ?)", [(i, rng.choice(cities)) for i in range(500)]
        )
        database.executemany(
            "insert into purchase values (?, ?)",
            [(rng.randrange(500), rng.randrange(10_000)) for _ in range(20_000)],
        )


def _empty_database(path: Path, _: random.Random) -> None:
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("create table entry (id integer primary key, text text)")


def _copied(source: Path) -> Maker:
    return lambda path, _: path.write_bytes(source.read_bytes())


MAKERS: dict[str, Maker] = {
    "words.txt": lambda path, rng: path.write_text(_words(rng, 256)),
    "words-large.txt": lambda path, rng: path.write_text(_words(rng, 512)),
    "words.txt.gz": lambda path, rng: path.write_bytes(
        gzip.compress(_words(rng, 2048).encode(), mtime=0)
    ),
    "access.log": _access_log,
    "numbers.txt": lambda path, rng: path.write_text(
        "".join(f"{rng.getrandbits(40)}\n" for _ in range(60_000))
    ),
    "random.bin": lambda path, rng: path.write_bytes(rng.randbytes(4096 * _KIBIBYTE)),
    "image.ppm": _image,
    "tree": _tree,
    "document": _documents,
    "source.c": lambda path, rng: path.write_text(_c_source(rng, 6, "entry")),
    "project": _c_project,
    "package": _python_package,
    "orders.db": _database,
    "log.db": _empty_database,
    # A passphrase; ``openssl`` derives the key from it.
    "key.txt": lambda path, rng: path.write_text(rng.randbytes(32).hex() + "\n"),
    **{path.name: _copied(path) for path in sorted(FIXED.iterdir())},
}
"""Every input by its name."""
