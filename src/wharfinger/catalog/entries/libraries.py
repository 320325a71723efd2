"""Python's library and NumPy, by ``wharfinger.catalog.programs.kernels``."""

from wharfinger.catalog.program import MEBIBYTE, Category, Program, kernel

ALIASES = {
    "re": ("regex",),
    "deflate": ("zlib", "gzip"),
    "difflib": ("diff",),
    "pool": ("primes", "multiprocessing"),
    "threaded-hash": ("sha3",),
    "objects": ("words",),
    "ast": ("compileall",),
    "elementwise": ("copy", "stencil"),
    "argsort": ("sortnp",),
    "exponential": ("montecarlo",),
}
"""Other words for the same work, in the commands of others."""


def _python(name: str, kind: Category, *, threads: int = 1) -> Program:
    label = f"python-{name}" + (f"-{threads}" if threads > 1 else "")
    command = kernel(name, "--threads", str(threads))
    return Program(
        label, f"python-{name}", kind, command, (name, *ALIASES.get(name, ())), {}, threads=threads
    )


def _numpy(name: str, *, threads: int = 1) -> Program:
    label = f"numpy-{name}" + (f"-{threads}-threads" if threads > 1 else "")
    return Program(
        label,
        f"numpy-{name}",
        Category.NUMERIC,
        kernel(name, "--threads", str(threads)),
        (name, *ALIASES.get(name, ())),
        {},
        memory_bytes=512 * MEBIBYTE,
        threads=threads,
    )


LIBRARIES: tuple[Program, ...] = (
    _python("json", Category.TEXT),
    _python("re", Category.TEXT),
    _python("pickle", Category.INTERPRETER),
    _python("deflate", Category.COMPRESSION),
    _python("pbkdf2", Category.HASHING),
    _python("threaded-hash", Category.HASHING, threads=2),
    _python("pool", Category.NUMERIC, threads=2),
    _python("difflib", Category.TEXT),
    _python("decimal", Category.NUMERIC),
    _python("xml", Category.TEXT),
    _python("objects", Category.INTERPRETER),
    _python("ast", Category.COMPILER),
    _numpy("matmul"),
    _numpy("matmul", threads=2),
    _numpy("svd"),
    _numpy("fft"),
    _numpy("elementwise"),
    _numpy("gather"),
    _numpy("argsort"),
    _numpy("exponential"),
)
