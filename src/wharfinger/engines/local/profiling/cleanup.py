"""Clears away what a plan's runs have left, whichever process died.

A plan has one directory: the run directories of its copies and sources, and records of its worker
and of where the upper layers lie, each written before the thing is made. Blocks until processes
have died: called by the worker, or by a process of its own after a dead one.
"""

import logging
import os
import signal
from contextlib import suppress
from pathlib import Path

import msgspec

from wharfinger.engines.supervised.machine import groups_of
from wharfinger.engines.supervised.records import list_keys, read_start, remove_run
from wharfinger.errors import EngineFault, NotFound, OutOfSpace
from wharfinger.host.processes import (
    ProcessIdentity,
    has_ended,
    identity_of,
    kill_orphans,
    open_pidfd,
    send_signal,
)
from wharfinger.host.run_dir import read_run
from wharfinger.host.sandbox import clean_up
from wharfinger.host.supervisor import cancel, request_stop
from wharfinger.monitor.client import MARK

log = logging.getLogger(__name__)

END_SECONDS = 10.0
"""For a supervisor to kill its tree and say so."""

_WORKER, _UPPER = "worker", "upper-base"


def begin(directory: Path, upper_base: Path) -> None:
    """Make a plan's directory and write down its worker and where its layers will lie."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    (directory / _UPPER).write_bytes(os.fsencode(upper_base))
    (directory / _WORKER).write_bytes(msgspec.json.encode(identity_of(os.getpid())))


def clear(directory: Path) -> None:
    """Remove everything of a plan: processes, cgroups, layers, files."""
    if not directory.is_dir():
        return
    _end_worker(directory)
    for name in list_keys(directory):
        clear_run(directory / name)
    _remove_upper(directory)
    remove_run(directory)
    with suppress(OSError):
        directory.parent.rmdir()  # Others of its kind may still be there.


def clear_run(run_dir: Path) -> None:
    """Remove everything of one run."""
    start = read_start(run_dir)
    if start is None:
        return  # A file of ours, or a directory that the copies' layers lie in.
    with suppress(NotFound, OutOfSpace):  # Without a claim it may not come any more.
        if not cancel(run_dir) and (supervisor := read_run(run_dir).supervisor):
            _end(supervisor, run_dir)
    group = groups_of(start.groups, run_dir.name)
    try:
        if not group.kill_all():
            kill_orphans(run_dir)
        kill_orphans(run_dir, mark=MARK)
        if group.paths and not group.remove():
            log.warning("%s: its cgroups are not empty, they stay", run_dir.name)
    except EngineFault as fault:
        log.warning("%s: %s", run_dir.name, fault)
    remove_run(run_dir)


def _end_worker(directory: Path) -> None:
    try:
        text = (directory / _WORKER).read_bytes()
        identity = msgspec.json.decode(text, type=ProcessIdentity)
    except (OSError, msgspec.MsgspecError):
        return
    if identity.pid != os.getpid():
        _end(identity)


def _end(process: ProcessIdentity, run_dir: Path | None = None) -> None:
    """Kill a process; a supervisor, whose run directory is given, may end its tree first."""
    pidfd = open_pidfd(process)
    if pidfd is None:
        return
    try:
        if run_dir is not None:
            request_stop(run_dir, pidfd, 0.0)
            if has_ended(pidfd, END_SECONDS):
                return
        send_signal(pidfd, signal.SIGKILL)
        has_ended(pidfd, END_SECONDS)
    finally:
        os.close(pidfd)


def _remove_upper(directory: Path) -> None:
    try:
        upper = Path(os.fsdecode((directory / _UPPER).read_bytes()))
    except OSError:
        return
    if not upper.is_dir() or upper.is_symlink():
        return
    try:
        clean_up(upper)
        upper.rmdir()
    except (EngineFault, OSError) as error:
        log.warning("%s: not removed: %s", upper, error)
