"""Six Slurm nodes of three platforms on this machine, with a controller and munge of their own.

Slurm's own daemons, as Debian packages them, on ports of the loopback interface: nothing of a
Slurm that this machine may be part of is read or touched. Everything lies in one directory and
descends from one process (``keeper``), so that all of it is gone after ``close``, and also after
the caller was killed.
"""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from wharfinger.demo.slurm.keeper import NODE_VARIABLE, Keeper
from wharfinger.demo.slurm.settings import (
    CLUSTER_NAME,
    SYSTEM_TABLES,
    AccountingKind,
    NodeSet,
    Places,
    choose_ports,
    database_command,
    default_nodes,
    slurm_conf,
    slurmdbd_conf,
)
from wharfinger.errors import EngineFault, Unavailable

_PACKAGES = {
    "munged": "munge",
    "slurmctld": "slurm-wlm",
    "slurmd": "slurm-wlm",
    "squeue": "slurm-wlm",
}
_ACCOUNTING_PACKAGES = {"slurmdbd": "slurmdbd", "mariadbd": "mariadb-server"}
_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_UP_SECONDS = 90.0
_COMMAND_SECONDS = 60.0
_POLL_SECONDS = 0.05


def missing_slurm(accounting: AccountingKind = "none") -> str:
    """The command that installs what such a cluster lacks here; empty = nothing is missing."""
    programs = _PACKAGES | (_ACCOUNTING_PACKAGES if accounting == "slurmdbd" else {})
    packages = {
        package: None
        for program, package in programs.items()
        if shutil.which(program, path=_SYSTEM_PATH) is None
    }
    if not packages:
        return ""
    return f"sudo apt-get install -y --no-install-recommends {' '.join(packages)}"


@dataclass(frozen=True, slots=True)
class Daemon:
    """One of the cluster's daemons, to be disturbed. Every method returns when it is done.

    ``launch`` starts it and waits until it serves.
    """

    keeper: Keeper
    name: str
    launch: Callable[[], None]

    def start(self) -> None:
        """Start it after its end, and wait until it serves."""
        self.launch()

    def stop(self) -> None:
        """End it in order."""
        self.keeper.signal(self.name, signal.SIGTERM)

    def kill(self) -> None:
        """End it at once, this process alone: the jobs of a node go on."""
        self.keeper.signal(self.name, signal.SIGKILL)

    def restart(self) -> None:
        """End it in order and start it again."""
        self.stop()
        self.start()

    def pause(self) -> None:
        """Stop it where it is: who asks it something waits."""
        self.keeper.signal(self.name, signal.SIGSTOP)

    def go_on(self) -> None:
        """Let it go on after ``pause``."""
        self.keeper.signal(self.name, signal.SIGCONT)


class SlurmCluster:
    """A cluster that is up inside its context. Methods that change it wait until that is done.

    Args:
        nodes: Default: six nodes of three platforms.
        accounting: ``"slurmdbd"`` takes a few seconds more to start.
        oversubscribe: How many jobs may hold the same CPU (``OverSubscribe=FORCE``).
        settings: More of ``slurm.conf``, or other values.
        prefix: Where another Slurm than the system's is installed, as ``/opt/slurm-24.11``.
        cgroup_plugin: What it must be told since it can't run without: ``"cgroup/v1"`` (23.11),
            ``"disabled"`` (24.11).

    Raises:
        EngineFault: Something that it needs is not installed, or it does not come up.
    """

    def __init__(
        self,
        nodes: Sequence[NodeSet] = (),
        accounting: AccountingKind = "none",
        *,
        oversubscribe: int = 1,
        settings: Mapping[str, str] | None = None,
        prefix: Path | None = None,
        cgroup_plugin: str = "",
    ) -> None:
        self.node_sets = tuple(nodes) or default_nodes()
        self.accounting: AccountingKind = accounting
        self.conditions: tuple[str, ...] = ()  # What this machine can't limit, a line each.
        self._oversubscribe = oversubscribe
        self._settings = dict(settings or {})
        self._prefix = prefix
        self._cgroup_plugin = cgroup_plugin
        self._user = pwd.getpwuid(os.geteuid()).pw_name
        self._places = Places(Path("/nonexistent"), ())
        self._keeper: Keeper | None = None

    # --- its life ---------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def open(self) -> None:
        """Start everything and wait until every node is idle."""
        missing = missing_slurm(self.accounting)
        if missing:
            raise EngineFault(f"this machine can't run a Slurm cluster; install it by: {missing}")
        # Not below a directory that only we may enter: jobs of other users need munge's socket.
        root = Path(tempfile.mkdtemp(prefix="wharfinger-slurm-", dir="/tmp"))
        root.chmod(0o755)
        self._places = Places(root, choose_ports(2 + len(self.names)))
        self._keeper = Keeper(root)
        try:
            self._start_all()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End everything, also what jobs left running; may be called twice."""
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            keeper.close()

    def _start_all(self) -> None:
        root = self._places.root
        for name in ("state", "spool", "munge", *(f"spool/{node}" for node in self.names)):
            (root / name).mkdir(mode=0o755)
        self._write_settings()
        self._start_munge()
        if self.accounting == "slurmdbd":
            self._start_accounting()
        for node_set in self.node_sets:
            for name in node_set.names:
                self._make_group(name, node_set)
        self._start_controller()
        for name in self.names:
            self._launch_slurmd(name)
        self.wait_until(
            lambda: all(state == "idle" for state in self.node_states().values()),
            "every node is idle",
        )

    def _write_settings(self) -> None:
        places = self._places
        places.slurm_conf.write_text(
            slurm_conf(
                places,
                self._user,
                self.node_sets,
                self.accounting,
                self._oversubscribe,
                self._settings,
            )
        )
        (places.root / "cgroup.conf").write_text(
            f"CgroupPlugin={self._cgroup_plugin}\n" if self._cgroup_plugin else ""
        )
        if self.accounting == "slurmdbd":
            file = places.root / "slurmdbd.conf"
            file.touch(mode=0o600)  # slurmdbd insists on it
            file.write_text(slurmdbd_conf(places, self._user))

    def _make_group(self, name: str, node_set: NodeSet) -> None:
        cpus = node_set.machine_cpus or tuple(sorted(os.sched_getaffinity(0)))
        # Twice the memory: page cache counts, too, and what Slurm gives out shall be there.
        try:
            missing = self.keeper.make_group(
                name, node_set.cpu_millicpus, cpus, 2 * node_set.memory_bytes
            )
        except EngineFault as fault:
            missing = [str(fault)]
        self.conditions = tuple(dict.fromkeys((*self.conditions, *missing)))

    # --- where it is ------------------------------------------------------------------------

    @property
    def keeper(self) -> Keeper:
        """The process that all daemons descend from."""
        if self._keeper is None:
            raise Unavailable("the Slurm cluster is not up")
        return self._keeper

    @property
    def directory(self) -> Path:
        """Everything that the cluster writes; gone after ``close``."""
        return self._places.root

    @property
    def slurm_conf(self) -> Path:
        """The file that ``SLURM_CONF`` names in ``environment``."""
        return self._places.slurm_conf

    @property
    def environment(self) -> dict[str, str]:
        """What a command needs in its environment to reach this cluster and no other."""
        path = _SYSTEM_PATH
        if self._prefix is not None:
            path = f"{self._prefix / 'sbin'}:{self._prefix / 'bin'}:{path}"
        return {"PATH": path, "LC_ALL": "C.UTF-8", "SLURM_CONF": str(self.slurm_conf)}

    @property
    def names(self) -> tuple[str, ...]:
        """Of the nodes."""
        return tuple(name for node_set in self.node_sets for name in node_set.names)

    # --- what a user of it does -------------------------------------------------------------

    def run(self, *command: str, stdin: str = "") -> str:
        """The output of a command of Slurm's; ``EngineFault`` with what it complains of."""
        done = subprocess.run(
            command,
            input=stdin,
            env=self.environment,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_COMMAND_SECONDS,
            cwd=self.directory,
            check=False,
        )
        if done.returncode:
            raise EngineFault(f"{command[0]}: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout

    def submit(self, body: str, *options: str) -> int:
        """Submit a batch script of these lines with ``sbatch``'s options; returns the job's id."""
        output = ["--output=/dev/null"] if not any("--output" in word for word in options) else []
        script = f"#!/bin/sh\n{body}\n"
        answer = self.run("sbatch", "--parsable", *output, *options, stdin=script)
        return int(answer.strip().partition(";")[0])

    def job_states(self) -> dict[str, str]:
        """State of every job that the controller holds, by id (``"7_3"`` for an array's task)."""
        lines = self.run("squeue", "-h", "-r", "-t", "all", "-o", "%i %T").splitlines()
        return dict(line.split() for line in lines if len(line.split()) == 2)

    def job(self, job_id: int) -> dict[str, str]:
        """What ``scontrol show job`` says of a job without blanks in its values, by name."""
        words = self.run("scontrol", "-o", "show", "job", str(job_id)).split()
        return dict(word.partition("=")[::2] for word in words if "=" in word)

    def node_states(self) -> dict[str, str]:
        """State of every node, as ``"idle"``, ``"drain"``, ``"down*"``."""
        lines = self.run("sinfo", "-h", "-N", "-o", "%N %t").splitlines()
        return dict(line.split() for line in lines if len(line.split()) == 2)

    def drain(self, name: str, reason: str) -> None:
        """Let a node's jobs end and start no others there."""
        self.run("scontrol", "update", f"NodeName={name}", "State=DRAIN", f"Reason={reason}")

    def undrain(self, name: str) -> None:
        """Let a node serve again."""
        self.run("scontrol", "update", f"NodeName={name}", "State=RESUME")

    def wait_until(
        self, reached: Callable[[], bool], what: str, timeout_seconds: float = _UP_SECONDS
    ) -> None:
        """Wait for a state of the cluster; ``EngineFault`` with its daemons' last words if not."""
        deadline, trouble = time.monotonic() + timeout_seconds, ""
        while True:
            try:
                if reached():
                    return
            except (EngineFault, subprocess.TimeoutExpired) as error:
                trouble = f"{error}; "
            if time.monotonic() > deadline:
                raise EngineFault(
                    f"after {timeout_seconds:g} s it is not so that {what}: "
                    f"{trouble}{self._last_words()}"
                )
            time.sleep(_POLL_SECONDS)

    def _last_words(self) -> str:
        words = []
        for log in sorted(self.directory.glob("*.log")):
            lines = log.read_text(errors="replace").splitlines()
            words += [f"{log.stem}: {line}" for line in lines[-3:]]
        return "; ".join(words) or "its daemons say nothing"

    # --- what goes wrong --------------------------------------------------------------------

    @property
    def controller(self) -> Daemon:
        """``slurmctld``."""
        return Daemon(self.keeper, "slurmctld", self._start_controller)

    @property
    def munge(self) -> Daemon:
        """``munged``: without it nobody is authenticated."""
        return Daemon(self.keeper, "munged", self._start_munge)

    def slurmd(self, name: str) -> Daemon:
        """A node's daemon."""
        return Daemon(self.keeper, name, lambda: self._start_slurmd(name))

    def lose_node(self, name: str) -> None:
        """Kill all that runs on a node, as a power cut does."""
        self.keeper.kill_group(name)

    # --- daemons ----------------------------------------------------------------------------

    def _start(self, name: str, *command: str, group: str = "", cpus: Sequence[int] = ()) -> None:
        environment = self.environment | {
            "MYSQL_UNIX_PORT": str(self._places.database_socket),
            **({NODE_VARIABLE: group} if group else {}),
        }
        program = shutil.which(command[0], path=environment["PATH"]) or command[0]
        self.keeper.start(
            name, [program, *command[1:]], self.directory / f"{name}.log", environment, group, cpus
        )

    def _start_munge(self) -> None:
        place = self._places.root / "munge"
        key = place / "key"
        if not key.exists():
            key.touch(mode=0o600)
            key.write_bytes(os.urandom(128))
        files = {"key-file": "key", "pid-file": "pid", "seed-file": "seed", "socket": "socket"}
        options = [f"--{option}={place / file}" for option, file in files.items()]
        # --force: a directory below /tmp is too open for its taste.
        self._start("munged", "munged", "--foreground", "--force", *options)
        self.wait_until(self._munge_answers, "munge answers")

    def _munge_answers(self) -> bool:
        return bool(self.run("munge", "-n", "--socket", str(self._places.munge_socket)))

    def _start_controller(self) -> None:
        self._start("slurmctld", "slurmctld", "-D")
        self.wait_until(lambda: bool(self.node_states()), "slurmctld answers")

    def _launch_slurmd(self, name: str) -> None:
        cpus = next(these.machine_cpus for these in self.node_sets if name in these.names)
        self._start(name, "slurmd", "-D", "-N", name, group=name, cpus=cpus)

    def _start_slurmd(self, name: str) -> None:
        self._launch_slurmd(name)
        self.wait_until(
            lambda: not any(word in self.node_states()[name] for word in ("down", "unk", "*")),
            f"{name} serves",
        )

    def _start_accounting(self) -> None:
        places = self._places
        data = places.root / "database"
        data.mkdir()
        database = database_command(_program("mariadbd"), places, self._user)
        tables = SYSTEM_TABLES.read_text()
        subprocess.run(
            [*database, "--bootstrap"],
            input=f"create database mysql;\nuse mysql;\n{tables}",
            text=True,
            check=True,
            capture_output=True,
            timeout=_COMMAND_SECONDS,
        )
        self._start("database", *database)
        self.wait_until(places.database_socket.exists, "the database answers")
        self._start("slurmdbd", "slurmdbd", "-D")
        add = ("sacctmgr", "-i", "add", "cluster", CLUSTER_NAME)
        self.wait_until(lambda: bool(self.run(*add)), "slurmdbd answers")


def _program(name: str) -> str:
    return shutil.which(name, path=_SYSTEM_PATH) or name
