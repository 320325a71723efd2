"""What every batch program here does: a step of work, a line ``done=N``, again until the end.

A step takes 20 to 100 ms on a CPU of today, so that a rate shows after a second.
"""

import argparse
import signal
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

Step = Callable[[int], object]
"""One step of work, by its number."""


def run_one_of(
    prog: str, description: str, option: str, makers: Mapping[str, Callable[[], Step]]
) -> int:
    """Repeat the step that the command line chooses, by default the first, up to its total."""
    arguments = _parser(prog, description, option, makers).parse_args()
    return repeat(makers[arguments.chosen](), arguments.total)


def run_in_folder(
    prog: str, description: str, option: str, makers: Mapping[str, Callable[[Path], Step]]
) -> int:
    """As ``run_one_of``, for steps that write files; the folder is removed at the end."""
    parser = _parser(prog, description, option, makers)
    parser.add_argument(
        "--directory", metavar="DIR", help="for files (default: $TMPDIR, else the system's)"
    )
    arguments = parser.parse_args()
    stop_in_order()
    with tempfile.TemporaryDirectory(prefix=f"{prog}-", dir=arguments.directory) as folder:
        return repeat(makers[arguments.chosen](Path(folder)), arguments.total)


def _parser(
    prog: str, description: str, option: str, names: Iterable[str]
) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=prog, description=description)
    add = parser.add_argument
    add(f"--{option}", dest="chosen", choices=list(names), default=next(iter(names)))
    add("--total", type=whole, default=0, metavar="N", help="end after N steps (default: no end)")
    return parser


def whole(text: str) -> int:
    """A whole number that is not negative, else ``ArgumentTypeError``.

    >>> whole("12")
    12
    """
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not a count; write e.g. 100")
    return int(text)


def repeat(step: Step, total: int = 0) -> int:
    """Do steps and say after each how many are done; 0 = until stopped."""
    done = 0
    while not total or done < total:
        step(done)
        done += 1
        sys.stdout.write(f"done={done}\n")
        sys.stdout.flush()
    return 0


def stop_in_order() -> None:
    """Let SIGTERM end the program as ``exit`` does, so that it removes what it made."""
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))


def sample_text(size_bytes: int) -> bytes:
    """Text that compresses as prose does (to about a third), the same everywhere.

    >>> len(sample_text(1000))
    1000
    >>> sample_text(500) == sample_text(1000)[:500]
    True
    """
    words = [_word(number) for number in range(2000)]
    text = bytearray()
    state = 12345
    while len(text) < size_bytes:
        state = (state * 1103515245 + 12345) & 0x7FFFFFFF
        # The product of two draws prefers small numbers: a few words are common, most are rare.
        first, second = state >> 8 & 0x3FF, state >> 18 & 0x3FF
        text += words[first * second % 2000 * second >> 10]
        text += b".\n" if state & 0xF00000 == 0 else b" "
    return bytes(text[:size_bytes])


def _word(number: int) -> bytes:
    syllables = (b"ka", b"ro", b"mi", b"ten", b"sul", b"ve", b"dor", b"an", b"pi", b"es", b"lo")
    parts = [syllables[number % 11], syllables[number // 11 % 11]]
    return b"".join([*parts, syllables[number // 121 % 11]] if number > 120 else parts)
