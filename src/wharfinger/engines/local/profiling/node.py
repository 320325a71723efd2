"""Runs one plan on the host where it is started, as another host's manager has ordered it.

``python -m wharfinger.engines.local.profiling.node DIRECTORY`` takes the order in the directory,
which both hosts see, runs the plan with a local engine, clears away and writes the answer there;
with ``--clear`` it only clears away what a profiler that was killed has left here. A termination
signal ends it, and all of it, without an answer; so does the word that no answer is wanted. See
``engines.supervised.copying``.
"""

import os
import secrets
import shutil
import signal
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

from wharfinger.core import events as ev
from wharfinger.engines.local.profiler import KEY, LocalProfiler
from wharfinger.engines.local.profiling import cleanup
from wharfinger.engines.local.profiling.client import PROFILES
from wharfinger.engines.supervised.copying import (
    CopyAnswer,
    CopyOrder,
    forget_place,
    is_left,
    limit_seconds,
    note_place,
    place_left,
    write_answer,
)
from wharfinger.engines.supervised.records import list_keys
from wharfinger.errors import WharfingerError

CLEAR = "--clear"
LOOK_SECONDS = 2.0
UNBOUND = "its job is not bound to its CPUs: a source would take those of others"


def profile(order: CopyOrder, place: Path) -> CopyAnswer:
    """Run the plan; ``place`` is made, and has all that it leaves."""
    place.mkdir(mode=0o700)
    workload, plan = order.workload, order.plan
    if order.script:
        program = place / "script"
        program.write_text(order.script, errors="surrogateescape")
        program.chmod(0o500)
        run = replace(workload.run, command=(str(program),))
        workload = replace(workload, run=run)
    silent: dict[str, str] = {}
    if len(os.sched_getaffinity(0)) > order.cpus:
        what = (f"{score}/{s.value}" for s in plan.sources for score in ("tolerated", "caused"))
        silent = dict.fromkeys(what, UNBOUND)
        plan = replace(plan, sources=())
    # The only server of this host, whatever the manager calls it.
    plan = replace(plan, server="")
    try:
        with LocalProfiler(place) as profiler:
            answer = profiler.answer(KEY, workload, plan, limit_seconds(plan))
    except WharfingerError as error:
        return ev.ProfilingFailed(order.key, str(error))
    if isinstance(answer, ev.ProfilingFailed):
        return replace(answer, key=order.key)
    measured = answer.measurements
    measured = replace(measured, silent={**measured.silent, **silent})
    return ev.ProfilingFinished(order.key, measured)


def clear(directory: Path) -> None:
    """Remove what the profiler of this order has left on this host."""
    place = place_left(directory)
    if place is None:
        return
    plans = place / PROFILES
    for key in list_keys(plans) if plans.is_dir() else ():
        cleanup.clear(plans / key)
    shutil.rmtree(place, ignore_errors=True)
    forget_place(directory)


def main(arguments: list[str]) -> None:
    """Begin, as a batch script calls it."""
    signal.signal(signal.SIGTERM, _end)
    if arguments[0] == CLEAR:
        clear(Path(arguments[1]))
        return
    directory = Path(arguments[0])
    order = CopyOrder.take(directory)
    place = Path(tempfile.gettempdir()) / f"wharfinger-profile-{secrets.token_hex(8)}"
    note_place(directory, place)
    signal.signal(signal.SIGALRM, lambda number, frame: is_left(directory) and _end(number, frame))
    signal.setitimer(signal.ITIMER_REAL, LOOK_SECONDS, LOOK_SECONDS)
    try:
        answer = profile(order, place)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        clear(directory)
    write_answer(directory, answer)


def _end(number: int, _frame: object) -> NoReturn:
    # Once: a second time it would end the clearing away.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.setitimer(signal.ITIMER_REAL, 0.0)
    raise SystemExit(128 + number)


if __name__ == "__main__":
    main(sys.argv[1:])
