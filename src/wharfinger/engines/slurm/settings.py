"""What an administrator states about a cluster, and what the engine needs of it to begin."""

import os
import pwd
import re
import stat
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from wharfinger.engines.slurm.client.base import Node, Partition, Site
from wharfinger.errors import InvalidInput

MIN_VERSION = (22, 5)
_SHOWN = 8


@dataclass(frozen=True, slots=True)
class SlurmSettings:
    """How a Slurm cluster is used.

    Attributes:
        partitions: Whose nodes are the servers; empty = the default partition.
        platform_features: Features of nodes that name their platforms; ``cpu:*`` = by the rest.
        shared_dir: A directory that every node sees under the same path; ``None`` = there is none.
        sbatch: Options for every job, by ``sbatch``'s long names, as ``{"account": "physics"}``.
        poll_seconds: Between two looks at nodes and jobs, while nothing starts or ends.
        pending_seconds: How long a released job may wait for the room that it was placed in; then
            it is taken back, and placed anew.
        time_limit_factor: The time limit of a job whose workload states none, over the most that it
            is predicted to take; 0 = the partition's default.
        lost_seconds: After a job's end, how long its records may take to show on the shared
            directory, or in accounting.
    """

    partitions: tuple[str, ...] = ()
    platform_features: tuple[str, ...] = ()
    shared_dir: Path | None = None
    sbatch: dict[str, str] = field(default_factory=dict)
    poll_seconds: float = 5.0
    pending_seconds: float = 120.0
    lost_seconds: float = 30.0
    time_limit_factor: float = 2.0

    def job_users(self) -> frozenset[str]:
        """The user of every start's job, by name and number: Slurm tells the one or the other."""
        user = self.sbatch.get("uid") or str(os.geteuid())
        found = {user}
        with suppress(KeyError, OverflowError, ValueError):
            entry = pwd.getpwuid(int(user)) if user.isdecimal() else pwd.getpwnam(user)
            found |= {entry.pw_name, str(entry.pw_uid)}
        return frozenset(found)


_OWN_OPTIONS = frozenset(
    (
        *("array", "begin", "chdir", "comment", "cpus-per-task", "dependency", "exclusive"),
        *("hold", "job-name", "mem", "no-kill", "no-requeue", "nodelist", "nodes", "ntasks"),
        *("ntasks-per-node", "output", "partition", "requeue", "time", "wait", "wrap"),
    )
)
_OPTION = re.compile(r"[a-z][a-z0-9-]{0,40}")


def read_sbatch_options(given: Sequence[str]) -> dict[str, str]:
    """Options of ``--sbatch-option NAME=VALUE``; raises ``InvalidInput``.

    >>> read_sbatch_options(["account=physics", "exclusive-user"])
    {'account': 'physics', 'exclusive-user': ''}
    """
    options: dict[str, str] = {}
    for text in given:
        name, _, value = text.partition("=")
        name = name.strip().removeprefix("--")
        if not _OPTION.fullmatch(name):
            raise InvalidInput(
                f"--sbatch-option {text[:60]!r}: not NAME=VALUE with a long name of sbatch's; "
                "write e.g. account=physics"
            )
        if name in _OWN_OPTIONS:
            raise InvalidInput(
                f"--sbatch-option {name}: wharfinger sets that itself for each job; leave it out"
            )
        options[name] = value.strip()
    return options


def check_site(site: Site) -> None:
    """Raise ``InvalidInput`` for a Slurm that is too old."""
    if site.version < MIN_VERSION:
        asked, least = (f"{year}.{month:02}" for year, month in (site.version, MIN_VERSION))
        raise InvalidInput(f"--engine slurm: this is Slurm {asked}; {least} or later is needed")


def choose_partitions(settings: SlurmSettings, known: Sequence[Partition]) -> tuple[str, ...]:
    """The partitions to use, which exist; raises ``InvalidInput``."""
    names = sorted(partition.name for partition in known)
    there = ", ".join(names[:_SHOWN]) or "none"
    for name in settings.partitions:
        if name not in names:
            raise InvalidInput(f"--partition {name!r}: no such partition; there are: {there}")
    if settings.partitions:
        return settings.partitions
    default = tuple(partition.name for partition in known if partition.is_default)
    if not default:
        raise InvalidInput(
            f"--partition: this cluster has no default partition; name one of: {there}"
        )
    return default


def platform_by(wanted: Collection[str], features: Sequence[str]) -> str:
    """The platform that one of a node's features names; empty = none does.

    >>> platform_by(["gpu", "cpu:*"], ["rack1", "cpu:zen3"]), platform_by(["zen3"], ["zen2"])
    ('zen3', '')
    """
    for feature in wanted:
        prefix = feature.removesuffix("*")
        for name in features:
            if name == feature:
                return name
            if prefix != feature and name.startswith(prefix) and name != prefix:
                return name.removeprefix(prefix)
    return ""


def check_features(settings: SlurmSettings, nodes: Sequence[Node]) -> None:
    """Raise ``InvalidInput`` for a feature that no node has, or for a node with two of them."""
    there = sorted({feature for node in nodes for feature in node.features})
    for feature in settings.platform_features:
        if not any(platform_by([feature], [name]) for name in there):
            shown = ", ".join(there[:_SHOWN]) or "none at all"
            raise InvalidInput(
                f"--platform-feature {feature!r}: no node has it; their features are: {shown}"
            )
    for node in nodes:
        both = [f for f in node.features if platform_by(settings.platform_features, [f])]
        if len(both) > 1:
            raise InvalidInput(
                f"--platform-feature: node {node.name} has {' and '.join(both)}, so its platform "
                "is not clear; name features of which each node has one"
            )


def check_shared_dir(directory: Path) -> Path:
    """The directory, which exists and can be written to; raises ``InvalidInput``."""
    place = f"--shared-dir {directory}"
    if not directory.is_absolute():
        raise InvalidInput(f"{place}: not an absolute path; begin it with '/'")
    try:
        if not directory.is_dir():
            what = "is no directory" if directory.exists() else "does not exist"
            raise InvalidInput(
                f"{place}: {what}; make a directory there that every node sees under this path"
            )
    except OSError as error:
        raise InvalidInput(f"{place}: {error.strerror}; name another directory") from error
    if not os.access(directory, os.W_OK | os.X_OK):
        raise InvalidInput(f"{place}: this user may not write there; name another directory")
    return directory


def check_ours(directory: Path) -> None:
    """Raise ``InvalidInput`` for what others may change: we take what lies there as ours."""
    status = directory.lstat()
    if not stat.S_ISDIR(status.st_mode):
        raise InvalidInput(f"{directory}: is no directory; remove it")
    if status.st_uid != os.geteuid():
        raise InvalidInput(
            f"{directory}: belongs to user {status.st_uid}, not to this one; remove it, or name "
            "another --shared-dir"
        )
    if status.st_mode & 0o022:
        raise InvalidInput(f"{directory}: others may write there; see what is in it: chmod 700")
