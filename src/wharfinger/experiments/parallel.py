"""Work in processes that end with the calling process.

The processes are spawned, not forked: a fork copies locks and threads of NumPy's in any state. The
command line sets ``OPENBLAS_NUM_THREADS`` before NumPy is imported, so that each process has one
thread.
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
"""Called with the number of items done, and of all; repeatedly also without a change."""

TICK_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class _Failure:
    """An exception of another process, as text: not every exception can be pickled."""

    kind: type[Exception]
    message: str
    trace: str


class _ThereError(Exception):
    """Shows the other process's traceback as the cause of an error."""


def each(
    work: Callable[[Item], Result],
    items: Sequence[Item],
    name_of: Callable[[Item], str],
    processes: int | None = None,
    progress: Progress | None = None,
) -> list[Result]:
    """Do the work for each item; the results in the items' order.

    Ctrl-C, an error in one process, and the death of this process end all of them.

    Args:
        work: A module's function: it is pickled by its name.
        items: Each is sent to a process.
        name_of: For errors.
        processes: Limit; ``None`` = one for each CPU. With one, the work is done in this process.
        progress: Called as the work goes on.

    Raises:
        WharfingerError: As raised by the work, with the item's name before the message.
        RuntimeError: A fault in the work, with the item's name and the traceback from there.
        Unavailable: A process was killed.
    """
    report = progress or (lambda _done, _all: None)
    count = min(processes or len(os.sched_getaffinity(0)), len(items))
    results = _here(work, items, report) if count <= 1 else _elsewhere(work, items, count, report)
    ended: dict[int, Result] = {}
    for at, result in results:
        if isinstance(result, _Failure):
            raise _error(result, name_of(items[at]))
        ended[at] = result
    return [ended[at] for at in range(len(items))]


def _here(
    work: Callable[[Item], Result], items: Sequence[Item], report: Progress
) -> Iterator[tuple[int, Result | _Failure]]:
    report(0, len(items))
    for at, item in enumerate(items):
        yield at, _attempt(work, item)
        report(at + 1, len(items))


def _elsewhere(
    work: Callable[[Item], Result], items: Sequence[Item], count: int, report: Progress
) -> Iterator[tuple[int, Result | _Failure]]:
    with _workers(count) as pool:
        with _interrupts_held():
            futures = {pool.submit(_attempt, work, item): at for at, item in enumerate(items)}
        pending = set(futures)
        while pending:
            report(len(items) - len(pending), len(items))
            ended, pending = wait(pending, TICK_SECONDS, FIRST_COMPLETED)
            for future in sorted(ended, key=futures.__getitem__):
                yield futures[future], _result(future)
        report(len(items), len(items))


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
    # All of them: the caller names the item and shows the traceback.
    except Exception as error:  # noqa: BLE001
        ours = isinstance(error, WharfingerError)
        return _Failure(type(error), str(error) if ours else repr(error), traceback.format_exc())


def _error(failure: _Failure, name: str) -> Exception:
    ours = (kind for kind in (InvalidInput, WharfingerError) if issubclass(failure.kind, kind))
    error = next(ours, RuntimeError)(f"{name}: {failure.message}")
    error.__cause__ = _ThereError(failure.trace)
    return error


@contextmanager
def _workers(count: int) -> Iterator[ProcessPoolExecutor]:
    """Processes that live no longer than this block and this process.

    Each holds one end of a pipe whose other end only this process has. However this process ends,
    the pipe breaks, and they exit at once.
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
    """Ctrl-C waits for the end of the block; processes spawned in it inherit the blocked signal.

    A terminal sends it to all processes; these end by their pipe instead.
    """
    former = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, former)


def _hold(pipe: Connection) -> None:
    threading.Thread(target=_end_with, args=(pipe,), daemon=True).start()


def _end_with(pipe: Connection) -> None:
    with suppress(EOFError, OSError):
        pipe.recv()
    os._exit(1)
