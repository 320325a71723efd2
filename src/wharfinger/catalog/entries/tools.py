"""Command-line tools: compression, hashing, text, sorting, images."""

from wharfinger.catalog.program import Category, Program, loop


def _tool(
    name: str,
    kind: Category,
    work: str,
    binaries: dict[str, str],
    *inputs: str,
    group: str | None = None,
    threads: int = 1,
) -> Program:
    return Program(
        name,
        group or next(iter(binaries)),
        kind,
        loop(work),
        MARKS.get(next(iter(binaries)), (next(iter(binaries)),)),
        {"sh": "dash", **binaries},
        inputs,
        threads=threads,
    )


GZIP, XZ, ZSTD = {"gzip": "gzip"}, {"xz": "xz-utils"}, {"zstd": "zstd"}
OPENSSL, COREUTILS = {"openssl": "openssl"}, "coreutils"
MAGICK = {"convert": "imagemagick"}
MARKS = {
    "gzip": ("gzip", "gunzip", "zcat", "zlib"),
    "xz": ("xz", "lzma"),
    "bzip2": ("bzip2", "bz2"),
    "sha256sum": ("sha256sum", "sha256"),
    "b2sum": ("b2sum", "blake2b"),
    "sort": ("sort", "wharfinger.catalog.programs.sorting"),
}
"""Where the same work also goes by other names."""
TEXT, LARGE = "words.txt", "words-large.txt"

_COMPRESSION = (
    _tool("gzip", Category.COMPRESSION, f"gzip -6 -c {TEXT} >/dev/null", GZIP, TEXT),
    _tool("gunzip", Category.COMPRESSION, f"gzip -d -c {TEXT}.gz >/dev/null", GZIP, f"{TEXT}.gz"),
    _tool("bzip2", Category.COMPRESSION, f"bzip2 -c {TEXT} >/dev/null", {"bzip2": "bzip2"}, TEXT),
    _tool("xz", Category.COMPRESSION, f"xz -T1 -1 -c {TEXT} >/dev/null", XZ, TEXT),
    _tool(
        "xz-2-threads",
        Category.COMPRESSION,
        f"xz -T2 -1 --block-size=131072 -c {LARGE} >/dev/null",
        XZ,
        LARGE,
        threads=2,
    ),
    _tool("zstd", Category.COMPRESSION, f"zstd -q -9 -c {TEXT} >/dev/null", ZSTD, TEXT),
    _tool(
        "zstd-2-threads",
        Category.COMPRESSION,
        f"zstd -q -9 -T2 -B262144 -c {LARGE} >/dev/null",
        ZSTD,
        LARGE,
        threads=2,
    ),
    _tool("lz4", Category.COMPRESSION, f"lz4 -q -3 -c {LARGE} >/dev/null", {"lz4": "lz4"}, LARGE),
    _tool(
        "pigz-2-threads",
        Category.COMPRESSION,
        f"pigz -p 2 -c {LARGE} >/dev/null",
        {"pigz": "pigz"},
        LARGE,
        threads=2,
    ),
)

_HASHING = (
    _tool(
        "sha256sum",
        Category.HASHING,
        "sha256sum random.bin random.bin >/dev/null",
        {"sha256sum": COREUTILS},
        "random.bin",
    ),
    _tool(
        "b2sum",
        Category.HASHING,
        "b2sum random.bin random.bin >/dev/null",
        {"b2sum": COREUTILS},
        "random.bin",
    ),
    _tool(
        "openssl-cipher",
        Category.HASHING,
        "openssl enc -aes-256-ctr -pbkdf2 -iter 20000 -salt -in random.bin -out /dev/null "
        "-pass file:key.txt",
        OPENSSL,
        "random.bin",
        "key.txt",
    ),
    _tool(
        "openssl-keys",
        Category.HASHING,
        "openssl ecparam -name secp384r1 -genkey -noout -out /dev/null",
        OPENSSL,
    ),
)

_TEXT = (
    _tool(
        "grep",
        Category.TEXT,
        r"grep -Ec '(ba|den)[a-z]*(ko|lis) .*([a-z]{3,6}) .*\2(so|tu)' words.txt >/dev/null",
        {"grep": "grep"},
        TEXT,
    ),
    _tool(
        "sed",
        Category.TEXT,
        r"sed -E 's/(ba|ko)([a-z]+) ([a-z]+)/\3 \2\1/g;s/den/DEN/g' words.txt >/dev/null",
        {"sed": "sed"},
        TEXT,
    ),
    _tool(
        "awk",
        Category.TEXT,
        "awk -f visits.awk access.log >/dev/null",
        {"awk": "mawk"},
        "access.log",
        "visits.awk",
    ),
    _tool(
        "perl",
        Category.TEXT,
        "perl visits.pl >/dev/null",
        {"perl": "perl-base"},
        "access.log",
        "visits.pl",
    ),
    _tool("bc", Category.NUMERIC, "bc -l pi.bc </dev/null >/dev/null", {"bc": "bc"}, "pi.bc"),
)

_SORTING = (
    _tool(
        "sort",
        Category.SORTING,
        "LC_ALL=C sort --parallel=1 -n numbers.txt >/dev/null",
        {"sort": COREUTILS},
        "numbers.txt",
    ),
    _tool(
        "sort-2-threads",
        Category.SORTING,
        "LC_ALL=C sort --parallel=2 numbers.txt numbers.txt >/dev/null",
        {"sort": COREUTILS},
        "numbers.txt",
        threads=2,
    ),
    _tool(
        "sort-external",
        Category.SORTING,
        "LC_ALL=C sort --parallel=1 -S 512k -T . numbers.txt >sorted.txt",
        {"sort": COREUTILS},
        "numbers.txt",
    ),
)

_IMAGE = (
    _tool(
        "imagemagick-resize",
        Category.IMAGE,
        "convert image.ppm -resize 50% -sharpen 0x1 jpg:/dev/null",
        MAGICK,
        "image.ppm",
        group="imagemagick",
    ),
    _tool(
        "netpbm-scale",
        Category.IMAGE,
        "pamscale 0.7 image.ppm | pnmtopng >/dev/null 2>&1",
        {"pamscale": "netpbm", "pnmtopng": "netpbm"},
        "image.ppm",
        group="netpbm",
    ),
    _tool(
        "cjpeg",
        Category.IMAGE,
        "cjpeg -optimize -progressive -quality 90 image.ppm >/dev/null",
        {"cjpeg": "libjpeg-turbo-progs"},
        "image.ppm",
    ),
    _tool(
        "ffmpeg-2-threads",
        Category.IMAGE,
        "ffmpeg -v error -f lavfi -i testsrc=size=320x240:rate=25:duration=0.4 -threads 2 "
        "-c:v mpeg4 -f null -",
        {"ffmpeg": "ffmpeg"},
        group="ffmpeg",
        threads=2,
    ),
)

TOOLS: tuple[Program, ...] = (*_COMPRESSION, *_HASHING, *_TEXT, *_SORTING, *_IMAGE)
