"""What tests of profiling share: programs that tell how they perform, and plans."""

import sys
from pathlib import Path

from wharfinger.core import actions as act
from wharfinger.core import events as ev
from wharfinger.model.interference import SharedResource
from wharfinger.model.profile import Measurements, ProfilingPlan
from wharfinger.model.workload import Measure, Run, Target, Workload, WorkloadType
from wharfinger.testing.harness import Session

MEMORY_BYTES = 256 << 20
LINES = Measure(progress_regex=r"done=(\d+)")

COUNTING = """
done = 0
while True:
    for _ in range(20000):
        done += 1
    print(f"done={done}", flush=True)
"""

SYNCING = """
import os
descriptor, done = os.open("data", os.O_CREAT | os.O_WRONLY), 0
while True:
    os.pwrite(descriptor, b"x" * 65536, done % 64 * 65536)
    os.fsync(descriptor)
    done += 1
    print(f"done={done}", flush=True)
"""


def ask(
    session: Session,
    script: str,
    *sources: SharedResource,
    folder: Path,
    cpus: tuple[int, ...] = (1000,),
    seconds: float = 3.0,
    measure: Measure = LINES,
    target: Target | None = None,
    kind: WorkloadType = WorkloadType.BATCH,
    key: str = "k",
) -> act.ProfileWorkload:
    """A plan for a Python script."""
    run = Run((sys.executable, "-c", script), {}, str(folder))
    workload = Workload(key, kind, run, target or Target(rate_per_second=1.0), measure=measure)
    plan = ProfilingPlan(session.servers[0], cpus, MEMORY_BYTES, sources, seconds)
    return act.ProfileWorkload(key, workload, plan)


def measured(session: Session, action: act.ProfileWorkload) -> Measurements:
    """Run a plan; what it found."""
    session.perform(action)
    answer = answered(session, action.key)
    assert isinstance(answer, ev.ProfilingFinished), answer
    return answer.measurements


def answered(session: Session, key: str) -> ev.ProfilingFinished | ev.ProfilingFailed:
    """The one answer to a plan."""
    kinds = ev.ProfilingFinished | ev.ProfilingFailed

    def found() -> list[ev.Report]:
        return [report for report in session.about(key) if isinstance(report, kinds)]

    session.wait_until(lambda: bool(found()), f"an answer about {key}")
    [answer] = found()
    assert isinstance(answer, kinds)
    return answer


# --- an untidy program, and its traces ---------------------------------------------------------

PORT = 18199
MARK = "wharfinger-profiling-test"

# Writes absolute paths, takes a port, leaves a daemon, and works on: as bad as honest work gets.
UNTIDY = f"""
import os, socket, time
for place in ("/etc", "/var/tmp", "/tmp", "/usr/local", "/run", os.getcwd(), "/dev/shm"):
    try:
        open(os.path.join(place, "{MARK}"), "w").write("x")
    except OSError:
        pass
server = socket.create_server(("127.0.0.1", {PORT}))
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        while True:
            time.sleep(0.1)
            open("daemon", "a").write("still here")
    os._exit(0)
"""
PLACES = ("/etc", "/var/tmp", "/tmp", "/usr/local", "/run", "/dev/shm")


def listens(port: int) -> bool:
    """Whether somebody outside listens on it."""
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return f"{port:04X}" in {line[1].rpartition(":")[2] for line in lines if line[3] == "0A"}


def mounts() -> list[str]:
    """What is mounted, but for what other tests mount at the same time."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return [line for line in lines if "wharfinger-test" not in line]
