"""Python's library and NumPy, by ``wharfinger.catalog.programs.kernels``."""

from wharfinger.catalog.program import MEBIBYTE, Kind, Program, kernel

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


def _python(name: str, kind: Kind, *, threads: int = 1) -> Program:
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
        Kind.NUMERIC,
        kernel(name, "--threads", str(threads)),
        (name, *ALIASES.get(name, ())),
        {},
        memory_bytes=512 * MEBIBYTE,
        threads=threads,
    )


LIBRARIES: tuple[Program, ...] = (
    _python("json", Kind.TEXT),
    _python("re", Kind.TEXT),
    _python("pickle", Kind.INTERPRETER),
    _python("deflate", Kind.COMPRESSION),
    _python("pbkdf2", Kind.HASHING),
    _python("threaded-hash", Kind.HASHING, threads=2),
    _python("pool", Kind.NUMERIC, threads=2),
    _python("difflib", Kind.TEXT),
    _python("decimal", Kind.NUMERIC),
    _python("xml", Kind.TEXT),
    _python("objects", Kind.INTERPRETER),
    _python("ast", Kind.COMPILER),
    _numpy("matmul"),
    _numpy("matmul", threads=2),
    _numpy("svd"),
    _numpy("fft"),
    _numpy("elementwise"),
    _numpy("gather"),
    _numpy("argsort"),
    _numpy("exponential"),
)
