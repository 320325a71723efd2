"""The demo's story, from top to bottom."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from wharfinger.catalog.known_files import load_known, save_known
from wharfinger.catalog.listing import groups_run_by
from wharfinger.demo import solo
from wharfinger.demo.cluster import Cluster, Connect
from wharfinger.demo.manifests import Place, manifest, program
from wharfinger.demo.picture import draw
from wharfinger.demo.plan import (
    BASELINE,
    MEMBERS,
    SURGE,
    Goal,
    Kind,
    Reservation,
    Timing,
    goal_of,
    of_kind,
    reservations,
)
from wharfinger.demo.report import Report, Run
from wharfinger.demo.screen import Screen
from wharfinger.demo.timeline import Course, Observer, busy_seconds
from wharfinger.demo.verdict import judge, read_clients

STEPS = 5
NOISE = 0.15
"""Of the CPUs: what others may use without a word."""
TARGETED = tuple(member for member in MEMBERS if member.targeted)


@dataclass(frozen=True, slots=True)
class Settings:
    """How the demo is to go.

    Attributes:
        directory: Everything is in it; it must be there and be empty.
        policy: Shown in the first run.
        seed: Of the users' reservations.
        timing: How long everything takes.
        picture: Where it goes; ``None`` = none is drawn.
        keep: Leave the manager of the first run up.
    """

    directory: Path
    policy: str
    seed: int = 0
    timing: Timing = field(default_factory=Timing)
    picture: Path | None = None
    keep: bool = False


@dataclass(frozen=True, slots=True)
class Stage:
    """What was found before the runs.

    Attributes:
        cpus: All that there are.
        goals: By name.
        reservations: By name.
        notes: What can't be shown here.
    """

    cpus: float
    goals: Mapping[str, Goal]
    reservations: Mapping[str, Reservation]
    notes: tuple[str, ...]


def play(settings: Settings, connect: Connect, screen: Screen) -> Report:
    """Measure, state targets, run twice, compare.

    Args:
        settings: How.
        connect: Makes clients of a manager.
        screen: Is told how far it is.

    Raises:
        WharfingerError: A manager or a program does not run.
        KeyboardInterrupt: As it came; everything that was started has ended then.
    """
    stage = prepare(settings, connect, screen)
    known = keep_strangers(settings.directory / "known")
    main_cluster = Cluster(settings.directory / "state", settings.policy, connect, known)
    try:
        title = f"run 1: eight programs under {settings.policy}, load surges half-way"
        screen.step(3, STEPS, title)
        main = run(settings, stage, main_cluster, screen)
        if not settings.keep:
            main_cluster.stop_manager()
        screen.step(4, STEPS, f"run 2: the same under {BASELINE}, with users' reservations")
        base_cluster = Cluster(settings.directory / "baseline", BASELINE, connect)
        try:
            base = run(settings, stage, base_cluster, screen)
        finally:
            base_cluster.end()
        screen.step(5, STEPS, "result")
        report = Report(
            settings.seed, stage.goals, stage.reservations, main, base, stage.notes, None
        )
        report = with_picture(report, settings.picture)
    except BaseException:
        main_cluster.end()
        raise
    if settings.keep:
        main_cluster.leave()
    return report


def keep_strangers(directory: Path) -> Path:
    """The known programs without those that take part: none is recognised by its own row."""
    own = (groups_run_by(program(*member.program)) for member in MEMBERS)
    save_known(load_known().without(frozenset().union(*own)), directory)
    return directory


def prepare(settings: Settings, connect: Connect, screen: Screen) -> Stage:
    """Each program alone, and the targets that follow."""
    screen.step(1, STEPS, "each program alone on one CPU, to know what it can do here")
    cluster = Cluster(settings.directory / "solo", BASELINE, connect)
    noise = others_share(cluster.cpu_numbers, settings.timing.solo_seconds / 2)
    try:
        cluster.start()
        servers = cluster.servers()
        cpus = round(sum(server["cpus"] for server in servers), 3)
        goals: dict[str, Goal] = {}
        with solo.others_busy(cluster.cpu_numbers[1:]):
            for member in TARGETED:
                found = solo.measure(cluster, member, cpus, settings.timing, settings.directory)
                unit = "requests" if member.kind is Kind.SERVICE else "steps"
                screen.note(f"{member.name}: {found.rate_per_second:.0f} {unit}/s ({member.about})")
                goals[member.name] = goal_of(member, found, cpus, settings.timing)
    finally:
        cluster.end()
    screen.step(
        2,
        STEPS,
        f"targets: shares of that which need {needed(goals, surging=False):.2f} of {cpus:g} CPUs, "
        f"{needed(goals, surging=True):.2f} in the surge",
    )
    screen.goals(goals)
    stated = reservations(goals, settings.seed, min(server["cpus"] for server in servers))
    notes = limits(servers)
    if noise > NOISE:
        notes.append(
            f"others used {noise:.0%} of these CPUs before the demo began: what it shows is noisy"
        )
        screen.note(notes[-1])
    return Stage(cpus, goals, stated, tuple(notes))


def needed(goals: Mapping[str, Goal], *, surging: bool) -> float:
    """CPUs that all targets take together."""
    more = {member.name: SURGE if member.surges and surging else 1.0 for member in TARGETED}
    return sum(goal.need_cpus * more[name] for name, goal in goals.items())


def others_share(cpus: Sequence[int], seconds: float) -> float:
    """How busy others keep these CPUs, before anything of ours runs; 0 where nobody says."""
    before, began = busy_seconds(cpus), time.monotonic()
    time.sleep(seconds)
    after, span = busy_seconds(cpus), time.monotonic() - began
    return (after[0] - before[0]) / (len(cpus) * span) if before and after else 0.0


def limits(servers: list[dict[str, Any]]) -> list[str]:
    """What this machine does not let the demo show."""
    found = []
    if len(servers) == 1:
        found.append(
            "one CPU, so one server: nothing can be placed elsewhere or moved, and the programs "
            "disturb each other and their clients more"
        )
    # What is missing, without why and the mend: those `describe server` tells.
    conditions = {
        condition["name"]: condition["message"].partition(": ")[0]
        for server in servers
        for condition in server["conditions"]
    }
    found += [f"{name}: {message}" for name, message in conditions.items()]
    if conditions:
        found.append("a manager of your own says how to mend that: wharfinger describe server")
    return found


def run(settings: Settings, stage: Stage, cluster: Cluster, screen: Screen) -> Run:
    """One run, from handing in to its end; the manager is left up without workloads."""
    timing = settings.timing
    cluster.start()
    folder = settings.directory / f"{cluster.state.name}.work"
    folder.mkdir()
    ports = {member.name: solo.free_port() for member in of_kind(Kind.SERVICE)}
    place = Place(folder, ports, time.time())
    manifests = [
        manifest(m, place, timing, stage.goals.get(m.name), stage.reservations.get(m.name))
        for m in MEMBERS
    ]
    cluster.submit(manifests, folder)
    course = Course(cluster.policy, place.epoch, stage.cpus)
    observer = Observer(cluster, course)
    observer.watch(timing.run_seconds, screen.look)
    seen = {member.name: read_clients(place.client_log(member.name)) for member in TARGETED}
    outcomes = tuple(
        judge(course, member, stage.goals[member.name], seen[member.name], timing.run_seconds)
        for member in TARGETED
    )
    cluster.clear()
    fillers = tuple(member.name for member in of_kind(Kind.FILLER))
    return Run(course, outcomes, fillers, seen, timing.surge_seconds)


def with_picture(report: Report, path: Path | None) -> Report:
    """The report with its picture, or with a note why there is none."""
    if path is None:
        return report
    try:
        drawn = draw(report, path)
    except OSError as error:
        why = f"no picture: {path}: {error.strerror or error}"
    else:
        if drawn:
            return replace(report, picture=str(path))
        why = "no picture: matplotlib is not installed; pip install 'wharfinger[demo]'"
    return replace(report, notes=(*report.notes, why))
