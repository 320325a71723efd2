"""What the known programs work on: generated here from a seed, downloaded from nowhere.

An input is a file or a folder that bears the name by which a program's command finds it. The
same seed gives the same bytes on every machine. Called by ``listing.prepare``.
"""

import json
import random
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

from wharfinger.errors import InvalidInput

Maker = Callable[[Path, random.Random], None]

_SYLLABLES = ("ba", "den", "ko", "lis", "mor", "na", "pre", "qui", "ras", "so", "tu", "ver", "wen")
_KIBIBYTE = 1024


def make_input(name: str, directory: Path, seed: int) -> Path:
    """Make the input of that name in a directory; what is there already stays.

    It appears whole or not at all: it is made under another name first.

    Raises:
        InvalidInput: There is no such input.
        OSError: It can't be written.
    """
    if name not in MAKERS:
        raise InvalidInput(f"input: {name!r}; there are {', '.join(MAKERS)}")
    path = directory / name
    if not path.exists():
        part = directory / f"{name}.part"
        _remove(part)
        # A generator of its own for each: which others were made before changes nothing.
        MAKERS[name](part, random.Random(f"{seed}/{name}"))
        part.rename(path)
    return path


def _remove(path: Path) -> None:
    """Of an earlier attempt that was killed."""
    if path.is_dir():
        for child in path.iterdir():
            _remove(child)
        path.rmdir()
    else:
        path.unlink(missing_ok=True)


# --- text ---------------------------------------------------------------------------------


def _vocabulary(rng: random.Random, size: int = 4000) -> list[str]:
    return ["".join(rng.choices(_SYLLABLES, k=rng.randint(1, 4))) for _ in range(size)]


def _words(rng: random.Random, size_bytes: int) -> str:
    """Words as frequent as in a language (Zipf's law), in lines and paragraphs."""
    vocabulary = _vocabulary(rng)
    weights = [1 / rank for rank in range(1, len(vocabulary) + 1)]
    # No word is shorter than two letters and its space.
    words = rng.choices(vocabulary, weights, k=size_bytes // 3)
    lines = (" ".join(words[i : i + 12]) for i in range(0, len(words), 12))
    return "\n".join(lines)[: size_bytes - 1] + "\n"


def _text(size_bytes: int) -> Maker:
    def make(path: Path, rng: random.Random) -> None:
        path.write_text(_words(rng, size_bytes))

    return make


def _compressed(path: Path, rng: random.Random) -> None:
    # Here and not above: few inputs need it.
    import gzip  # noqa: PLC0415

    path.write_bytes(gzip.compress(_words(rng, 2048 * _KIBIBYTE).encode(), mtime=0))


def _access_log(path: Path, rng: random.Random) -> None:
    """Lines in the common log format of web servers."""
    pages = [f"/{a}/{b}" for a, b in zip(_vocabulary(rng, 200), _vocabulary(rng, 200), strict=True)]
    lines = [
        f"10.{rng.randrange(256)}.{rng.randrange(256)}.{rng.randrange(256)} - - "
        f'[21/Nov/2026:{rng.randrange(24):02}:{rng.randrange(60):02}:07 +0000] "GET '
        f'{rng.choice(pages)} HTTP/1.1" {rng.choice((200, 200, 200, 304, 404, 500))} '
        f"{rng.randrange(100_000)}\n"
        for _ in range(6000)
    ]
    path.write_text("".join(lines))


def _numbers(path: Path, rng: random.Random) -> None:
    path.write_text("".join(f"{rng.getrandbits(40)}\n" for _ in range(60_000)))


def _records(path: Path, rng: random.Random) -> None:
    documents = [
        {"id": i, "name": _words(rng, 24).strip(), "price": rng.random(), "tags": [i % 7, i % 11]}
        for i in range(40)
    ]
    path.write_text(json.dumps(documents))


# --- bytes --------------------------------------------------------------------------------


def _random_bytes(size_bytes: int) -> Maker:
    def make(path: Path, rng: random.Random) -> None:
        path.write_bytes(rng.randbytes(size_bytes))

    return make


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


# --- folders ------------------------------------------------------------------------------


def _tree(path: Path, rng: random.Random) -> None:
    """A folder of folders with small files."""
    for i in range(20):
        folder = path / f"folder{i:02}"
        folder.mkdir(parents=True)
        for j in range(25):
            (folder / f"file{j:02}.{rng.choice(('txt', 'log', 'dat'))}").write_bytes(
                rng.randbytes(rng.randrange(4096))
            )


def _documents(path: Path, rng: random.Random) -> None:
    """A hundred pages of text, as a service of files has them."""
    path.mkdir()
    for i in range(100):
        (path / str(i)).write_text(_words(rng, rng.randrange(2, 40) * _KIBIBYTE))


def _c_function(rng: random.Random, number: int) -> str:
    a, b, c = (rng.randrange(3, 1000) for _ in range(3))
    return (
        f"static unsigned f{number}(unsigned x) {{\n"
        f"  for (unsigned i = 0; i < {a}u; i++) {{\n"
        f"    if (x % {b}u == i) x = x * {c}u + i; else x ^= x >> {number % 13 + 1};\n"
        "  }\n  return x;\n}\n"
    )


def _c_source(rng: random.Random, functions: int, entry: str) -> str:
    body = "".join(_c_function(rng, i) for i in range(functions))
    calls = " + ".join(f"f{i}(x)" for i in range(functions))
    return f"{body}unsigned {entry}(unsigned x) {{ return {calls}; }}\n"


def _c_file(path: Path, rng: random.Random) -> None:
    path.write_text(_c_source(rng, 6, "entry"))


def _c_project(path: Path, rng: random.Random) -> None:
    """Four sources and a makefile that compiles them all, each time it is asked."""
    path.mkdir()
    names = [f"part{i}" for i in range(4)]
    for name in names:
        (path / f"{name}.c").write_text(_c_source(rng, 2, name))
    objects = " ".join(f"{name}.o" for name in names)
    rules = "%.o: %.c always\n\tgcc -O1 -c -o $@ $<\n"
    (path / "Makefile").write_text(f"all: {objects}\n{rules}.PHONY: all always\nalways:\n")


def _python_source(rng: random.Random) -> Iterator[str]:
    for i in range(40):
        a, b = rng.randrange(1000), rng.randrange(1000)
        yield f"def function{i}(x, y={a}):\n"
        yield f"    values = [x * {b} + k for k in range(y) if k % 3]\n"
        yield "    return {'sum': sum(values), 'text': f'{x} of {y}'}\n\n\n"


def _python_package(path: Path, rng: random.Random) -> None:
    path.mkdir()
    for i in range(2):
        (path / f"module{i}.py").write_text("".join(_python_source(rng)))


# --- programs of other languages ------------------------------------------------------------


def _database(path: Path, rng: random.Random) -> None:
    """Two tables to join: 500 customers, 20,000 orders."""
    database = sqlite3.connect(path)
    with database:
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
    database.close()


def _empty_database(path: Path, _: random.Random) -> None:
    database = sqlite3.connect(path)
    with database:
        database.execute("create table entry (id integer primary key, text text)")
    database.close()


def _key(path: Path, rng: random.Random) -> None:
    """A passphrase; ``openssl`` derives the key from it."""
    path.write_text(rng.randbytes(32).hex() + "\n")


def _fixed(text: str) -> Maker:
    def make(path: Path, _: random.Random) -> None:
        path.write_text(text)

    return make


_JAVASCRIPT = """\
let state = 12345;
const random = () => (state = (state * 1103515245 + 12345) & 0x7fffffff) / 0x7fffffff;
const rows = Array.from({length: 3000}, (_, i) => ({id: i, name: 'n' + Math.floor(random() * 1e6),
  tags: [i % 7, i % 11]}));
for (let done = 1; ; done++) {
  for (let i = 0; i < 4; i++) {
    const copy = JSON.parse(JSON.stringify(rows));
    copy.sort((a, b) => a.name < b.name ? -1 : 1);
  }
  require('fs').writeSync(1, 'done=' + done + '\\n');
}
"""

_SERVER = """\
const http = require('http');
const zlib = require('zlib');
const rows = Array.from({length: 400}, (_, i) => ({id: i, name: 'n' + (i * 7919) % 1000}));
http.createServer((request, response) => {
  const number = Number(request.url.split('/').pop());
  const chosen = rows.map(row => ({...row, rank: (row.id * number) % 97}));
  chosen.sort((a, b) => a.rank - b.rank);
  const body = zlib.gzipSync(JSON.stringify(chosen));
  response.writeHead(200, {'Content-Length': body.length, 'Content-Encoding': 'gzip'});
  response.end(body);
}).listen(Number(process.argv[2]), '127.0.0.1');
"""

_NGINX = """\
daemon off;
pid nginx.pid;
user root;
worker_processes 2;
events { worker_connections 64; }
http {
  access_log off;
  default_type text/plain;
  gzip on;
  gzip_types text/plain;
  gzip_comp_level 6;
  client_body_temp_path body;
  proxy_temp_path proxy;
  fastcgi_temp_path fastcgi;
  uwsgi_temp_path uwsgi;
  scgi_temp_path scgi;
  server { listen 127.0.0.1:PORT; root .; }
}
"""

_JAVA = """\
import java.util.*;

public class Maps {
    public static void main(String[] arguments) {
        Random random = new Random(12345);
        for (long done = 1; ; done++) {
            Map<String, Integer> counts = new TreeMap<>();
            for (int i = 0; i < 8000; i++) {
                counts.merge("k" + random.nextInt(5000), 1, Integer::sum);
            }
            System.out.println("done=" + done);
            System.out.flush();
        }
    }
}
"""

_PERL = """\
my %count;
open my $file, '<', 'access.log' or die;
while (<$file>) {
    next unless m{^(\\d+)\\.\\S+ .*"GET (/\\w+)/\\w+ HTTP/1\\.1" (\\d\\d)\\d (\\d+)$};
    $count{"$1 $2 $3"} += $4;
}
print scalar(keys %count), "\\n";
"""

_AWK = """\
{ split($4, when, ":"); bytes[when[2] " " $9] += $10; seen[$7]++ }
END { for (k in bytes) total += bytes[k]; for (p in seen) pages++; print total, pages }
"""

_PI = "scale=350\n4*a(1)\n"

MAKERS: dict[str, Maker] = {
    "words.txt": _text(256 * _KIBIBYTE),
    "words-large.txt": _text(512 * _KIBIBYTE),
    "words.txt.gz": _compressed,
    "access.log": _access_log,
    "numbers.txt": _numbers,
    "records.json": _records,
    "random.bin": _random_bytes(4096 * _KIBIBYTE),
    "image.ppm": _image,
    "tree": _tree,
    "document": _documents,
    "source.c": _c_file,
    "project": _c_project,
    "package": _python_package,
    "orders.db": _database,
    "log.db": _empty_database,
    "key.txt": _key,
    "rows.js": _fixed(_JAVASCRIPT),
    "server.js": _fixed(_SERVER),
    "nginx.conf": _fixed(_NGINX),
    "Maps.java": _fixed(_JAVA),
    "visits.pl": _fixed(_PERL),
    "visits.awk": _fixed(_AWK),
    "pi.bc": _fixed(_PI),
}
"""Every input by its name."""
