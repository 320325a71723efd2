"""The set's manifests, as a user would write them; the same for both runs but for ports."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wharfinger.demo.plan import (
    LATENCY_PERCENTILE,
    SURGE,
    TOLERANCE,
    Goal,
    Kind,
    Member,
    Reservation,
    Timing,
)

MEMORY = "192Mi"
CONNECTIONS = 8
LOAD_REGEX = r"throughput=(?P<throughput>[0-9.]+) latency_ms=(?P<latency_ms>[0-9.]+)"
DONE_REGEX = "done=([0-9]+)"


@dataclass(frozen=True, slots=True)
class Place:
    """Where one run takes place.

    Attributes:
        directory: The programs' working directory, where clients' reports go as well.
        ports: Of the services.
        epoch: When the run begins, in seconds since 1970.
    """

    directory: Path
    ports: Mapping[str, int]
    epoch: float

    def client_log(self, name: str) -> Path:
        """What a service's clients saw, a line a second."""
        return self.directory / f"{name}.clients"


def program(*words: str) -> list[str]:
    """The command of one of our programs, by the Python that runs this."""
    return [sys.executable, "-m", f"wharfinger.catalog.programs.{words[0]}", *words[1:]]


def base(member: Member, command: Sequence[str], directory: Path) -> dict[str, Any]:
    """A manifest without target, reservation and measuring."""
    return {
        "apiVersion": "wharfinger.dev/v1alpha1",
        "kind": "Workload",
        "metadata": {"name": member.name},
        "spec": {
            "type": member.kind.value,
            "resources": {"memory": MEMORY},
            "run": {
                "command": list(command),
                "workingDir": str(directory),
                "stopGrace": "2s",
            },
        },
    }


def manifest(
    member: Member,
    place: Place,
    timing: Timing,
    goal: Goal | None = None,
    reservation: Reservation | None = None,
) -> dict[str, Any]:
    """One workload of a run."""
    command = program(*member.program)
    if member.kind is Kind.SERVICE:
        command += ["--port", str(place.ports[member.name])]
    if goal is not None and goal.total is not None:
        command += ["--total", str(goal.total)]
    made = base(member, command, place.directory)
    spec = made["spec"]
    if reservation is not None:
        spec["resources"]["cpu"] = f"{round(reservation.cpus * 1000)}m"
    if goal is None:
        spec["measure"] = {"progress": {"regex": DONE_REGEX}}
        return made
    spec["tolerance"] = TOLERANCE
    spec["profile"] = {"seconds": timing.profile_seconds}
    if member.kind is Kind.SERVICE:
        spec["profile"] = {"seconds": timing.service_profile_seconds}
        spec["target"] = service_target(goal)
        spec["measure"] = {
            "load": {"command": load(member, goal, place, timing), "regex": LOAD_REGEX}
        }
    else:
        spec["target"] = {"completionTime": f"{goal.completion_seconds}s"}
        spec["measure"] = {"progress": {"regex": DONE_REGEX, "total": goal.total}}
    return made


def service_target(goal: Goal) -> dict[str, Any]:
    """Throughput, and latency where it is bounded."""
    target: dict[str, Any] = {"throughput": f"{goal.throughput_per_second}/s"}
    if goal.latency_seconds is not None:
        below = f"{round(goal.latency_seconds * 1000)}ms"
        target["latency"] = {"percentile": LATENCY_PERCENTILE, "below": below}
    return target


def load(member: Member, goal: Goal, place: Place, timing: Timing) -> list[str]:
    """The load generator: a rate that surges, or as fast as answers come."""
    command = [
        *drive(member, place.ports[member.name]),
        "--epoch",
        f"{place.epoch:.3f}",
        "--log",
        str(place.client_log(member.name)),
    ]
    if member.surges and goal.throughput_per_second is not None:
        rate = goal.throughput_per_second
        surge = f"{timing.surge_seconds:g}:{rate * SURGE:g}"
        command += ["--rate", f"{rate:g}", "--step", surge]
    return command


def drive(member: Member, port: int) -> list[str]:
    """What every use of the load generator has in common."""
    options = ["--protocol", member.protocol, "--port", str(port), "--keys", "50"]
    options += ["--connections", str(CONNECTIONS), "--percentile", f"{LATENCY_PERCENTILE:g}"]
    return program("load", *options)
