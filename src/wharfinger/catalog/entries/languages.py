"""Compilers and interpreters of other languages."""

from wharfinger.catalog.program import MEBIBYTE, Category, Program, loop

GCC = {"sh": "dash", "gcc": "gcc"}

LANGUAGES: tuple[Program, ...] = (
    Program(
        "gcc",
        "gcc",
        Category.COMPILER,
        loop("gcc -O1 -c -o source.o source.c"),
        ("gcc",),
        GCC,
        ("source.c",),
    ),
    Program(
        "make-2-jobs",
        "gcc",
        Category.COMPILER,
        loop("make -s -C project -j2"),
        ("make",),
        {**GCC, "make": "make"},
        ("project",),
        threads=2,
    ),
    Program(
        "python-compileall",
        "python-compileall",
        Category.COMPILER,
        loop("'{python}' -I -S -m compileall -q -f package"),
        ("compileall",),
        {"sh": "dash"},
        ("package",),
    ),
    Program(
        "node",
        "node",
        Category.INTERPRETER,
        ("node", "rows.js"),
        ("node",),
        {"node": "nodejs"},
        ("rows.js",),
        memory_bytes=512 * MEBIBYTE,
    ),
    Program(
        "java",
        "java",
        Category.INTERPRETER,
        ("java", "-Xmx128m", "-XX:+UseSerialGC", "Maps.java"),
        ("java",),
        {"java": "default-jdk-headless", "javac": "default-jdk-headless"},
        ("Maps.java",),
        memory_bytes=768 * MEBIBYTE,
        threads=2,
    ),
)
