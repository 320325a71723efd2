"""Runs in processes of their own, which end with whoever asked for them.

``comparison.py`` calls ``each``. The processes are spawned, not forked: a fork takes over locks
and threads of NumPy's in the middle of whatever they do. Whoever calls from a command line sets
``OPENBLAS_NUM_THREADS`` before NumPy is imported: each process is to have one thread.
"""

import os
import signal
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import TypeVar

from wharfinger.errors import InvalidInput, Unavailable, WharfingerError

Item = TypeVar("Item")
Result = TypeVar("Result")
Progress = Callable[[int, int], None]
"""Is told how many are done, of how many; also now and then while nothing changes."""

TICK_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class _Failure:
    """What went wrong in another process, as text: not every exception can be sent."""

    kind: type[Exception]
    message: str
    trace: str


class _ThereError(Exception):
    """Shows the other process's traceback, as the cause of an error here."""


def usable_cpus() -> int:
    """CPUs that this process may use."""
    return len(os.sched_getaffinity(0))


def each(
    work: Callable[[Item], Result],
    items: Sequence[Item],
    name_of: Callable[[Item], str],
    processes: int | None = None,
    progress: Progress | None = None,
) -> list[Result]:
    """Do the work for each item; the results in the items' order.

    Ctrl-C, an error in one of them, and the death of this process end all of them.

    Args:
        work: A module's function: it is found by its name in the other processes.
        items: Each is sent to one of them.
        name_of: How errors call an item.
        processes: At most so many at once; ``None`` = one for each CPU. One needs no other process
            but this.
        progress: Is told how far it is.

    Raises:
        WharfingerError: As raised by the work, with the item's name before the message.
        RuntimeError: A fault in the work, with the item's name and the traceback from there.
        Unavailable: A process was killed.
    """
    tell = progress or (lambda _done, _all: None)
    count = min(processes or usable_cpus(), len(items))
    results = _here(work, items, tell) if count <= 1 else _elsewhere(work, items, count, tell)
    ended: dict[int, Result] = {}
    for at, result in results:
        if isinstance(result, _Failure):
            raise _error(result, name_of(items[at]))
        ended[at] = result
    return [ended[at] for at in range(len(items))]


def _here(
    work: Callable[[Item], Result], items: Sequence[Item], tell: Progress
) -> Iterator[tuple[int, Result | _Failure]]:
    tell(0, len(items))
    for at, item in enumerate(items):
        yield at, _attempt(work, item)
        tell(at + 1, len(items))


def _elsewhere(
    work: Callable[[Item], Result], items: Sequence[Item], count: int, tell: Progress
) -> Iterator[tuple[int, Result | _Failure]]:
    with _workers(count) as pool:
        with _interrupts_held():
            futures = {pool.submit(_attempt, work, item): at for at, item in enumerate(items)}
        for future in _as_they_end(futures, tell):
            yield futures[future], _result(future)


def _as_they_end(
    futures: "dict[Future[Result], int]", tell: Progress
) -> "Iterator[Future[Result]]":
    pending = set(futures)
    while pending:
        tell(len(futures) - len(pending), len(futures))
        ended, pending = wait(pending, TICK_SECONDS, FIRST_COMPLETED)
        yield from sorted(ended, key=futures.__getitem__)
    tell(len(futures), len(futures))


def _result(future: "Future[Result]") -> Result:
    try:
        return future.result()
    except BrokenProcessPool:
        raise Unavailable(
            "a process that simulated was killed, as when memory runs out; "
            "try fewer with --processes"
        ) from None


def _attempt(work: Callable[[Item], Result], item: Item) -> Result | _Failure:
    try:
        return work(item)
    # All of them: the other side says which run it was, and shows the traceback.
    except Exception as error:  # noqa: BLE001
        ours = isinstance(error, WharfingerError)
        return _Failure(type(error), str(error) if ours else repr(error), traceback.format_exc())


def _error(failure: _Failure, name: str) -> Exception:
    message = f"{name}: {failure.message}"
    cause = _ThereError(failure.trace)
    error: Exception
    if issubclass(failure.kind, InvalidInput):
        error = InvalidInput(message)
    elif issubclass(failure.kind, WharfingerError):
        error = WharfingerError(message)
    else:
        error = RuntimeError(message)
    error.__cause__ = cause
    return error


@contextmanager
def _workers(count: int) -> Iterator[ProcessPoolExecutor]:
    """Processes that live no longer than this block, nor than this process.

    Each holds one end of a line whose other end is here alone. However this process ends, the line
    breaks, and they end in the middle of whatever they do.
    """
    context = get_context("spawn")
    there, here = context.Pipe(duplex=False)
    pool = ProcessPoolExecutor(count, context, _hold, (there,))
    try:
        yield pool
        pool.shutdown()
    finally:
        here.close()
        pool.shutdown(cancel_futures=True)
        there.close()


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Ctrl-C waits for the end of the block, and is never for processes that are spawned in it.

    A terminal sends it to all; they inherit that they don't hear it, and end by their line.
    """
    former = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, former)


def _hold(line: Connection) -> None:
    """In each process, before all else."""
    threading.Thread(target=_end_with, args=(line,), daemon=True).start()


def _end_with(line: Connection) -> None:
    with suppress(EOFError, OSError):
        line.recv()
    os._exit(1)
