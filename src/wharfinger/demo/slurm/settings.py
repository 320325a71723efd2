"""The nodes of the cluster, and the files that its daemons read.

What each setting of ``slurm.conf`` is for stands beside it: some of Slurm's defaults make a small
cluster on one machine slow or wrong.
"""

import os
import random
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

MIB = 1 << 20
CLUSTER_NAME = "wharfinger"
DATABASE_USER = "slurm"
SYSTEM_TABLES = Path("/usr/share/mysql/mysql_system_tables.sql")
"""Debian's ``mariadb-server`` brings it: the tables that a new database needs."""

AccountingKind = Literal["slurmdbd", "jobcomp", "none"]


@dataclass(frozen=True, slots=True)
class NodeSet:
    """Nodes of one platform.

    Attributes:
        platform: Its name, in the feature ``platform:NAME`` of each node.
        cpus: How many CPUs Slurm gives out on each node.
        cpu_millicpus: What all that runs on one node may really use together.
        machine_cpus: Those of this machine that they may run on; empty = all.
    """

    platform: str
    names: tuple[str, ...]
    cpus: int
    memory_bytes: int
    cpu_millicpus: int
    machine_cpus: tuple[int, ...] = ()


def default_nodes() -> tuple[NodeSet, ...]:
    """Six nodes of three platforms, which together use all but a little of this machine's CPUs.

    A program with one thread is fastest on ``fast``; only ``wide`` has both of two CPUs.
    """
    machine = sorted(os.sched_getaffinity(0))
    share = 500 * len(machine)  # millicpus of half the machine
    return (
        NodeSet("fast", ("n1", "n2"), 2, 1024 * MIB, share * 45 // 100, (machine[0],)),
        NodeSet("wide", ("n3", "n4"), 4, 2048 * MIB, share * 30 // 100, tuple(machine)),
        NodeSet("slow", ("n5", "n6"), 2, 1024 * MIB, share * 10 // 100, (machine[-1],)),
    )


@dataclass(frozen=True, slots=True)
class Places:
    """Where everything of one cluster lies, and its ports on the loopback interface.

    Attributes:
        ports: Of the controller, of accounting, then one of each node.
    """

    root: Path
    ports: tuple[int, ...]

    @property
    def slurm_conf(self) -> Path:
        """What every command and daemon of the cluster reads."""
        return self.root / "slurm.conf"

    @property
    def munge_socket(self) -> Path:
        """Of the cluster's own munge."""
        return self.root / "munge" / "socket"

    @property
    def database_socket(self) -> Path:
        """Of the cluster's own database."""
        return self.root / "database.socket"

    @property
    def jobcomp(self) -> Path:
        """The file of ``jobcomp/filetxt``."""
        return self.root / "jobcomp.log"


def choose_ports(count: int) -> tuple[int, ...]:
    """Ports that nothing listens at, below those that the kernel gives to clients."""
    ports: list[int] = []
    for port in random.SystemRandom().sample(range(12000, 30000), 2000):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        ports.append(port)
        if len(ports) == count:
            break
    return tuple(ports)


def _lines(settings: Mapping[str, object]) -> str:
    return "".join(f"{name}={value}\n" for name, value in settings.items())


def slurm_conf(
    places: Places,
    user: str,
    nodes: Sequence[NodeSet],
    accounting: AccountingKind,
    oversubscribe: int,
    more: Mapping[str, str],
) -> str:
    """``slurm.conf``; ``more`` replaces and adds settings."""
    root, host = places.root, socket.gethostname()
    settings: dict[str, object] = {
        "ClusterName": CLUSTER_NAME,
        "SlurmctldHost": f"{host}(127.0.0.1)",
        "SlurmctldPort": places.ports[0],
        "SlurmUser": user,
        "SlurmdUser": user,
        "AuthType": "auth/munge",
        "CredType": "cred/munge",
        "AuthInfo": f"socket={places.munge_socket}",
        "StateSaveLocation": root / "state",
        "SlurmdSpoolDir": root / "spool" / "%n",
        "SlurmctldPidFile": root / "slurmctld.pid",
        "SlurmdPidFile": root / "%n.pid",
        "MailProg": "/bin/true",
        "MpiDefault": "none",
        # Jobs stay in the cgroup of their node's daemon, which is what limits them.
        "ProctrackType": "proctrack/linuxproc",
        "TaskPlugin": "task/none",
        "JobAcctGatherType": "jobacct_gather/linux",
        "JobAcctGatherFrequency": "task=1",
        # A node has as many CPUs as is said here, not as this machine has.
        "SlurmdParameters": "config_overrides",
        "SelectType": "select/cons_tres",
        "SelectTypeParameters": "CR_CPU_Memory",
        "SchedulerType": "sched/backfill",
        # Without these a released job waits for more than a second.
        "SchedulerParameters": "sched_interval=1,sched_min_interval=10000,batch_sched_delay=0,"
        "bf_interval=1",
        "ReturnToService": 2,  # A node that was lost serves again once its daemon is back.
        "SlurmdTimeout": 10,
        "SlurmctldTimeout": 10,
        "KillWait": 2,
        "MinJobAge": 60,
        "JobRequeue": 1,
    }
    settings |= {
        "slurmdbd": {
            "AccountingStorageType": "accounting_storage/slurmdbd",
            "AccountingStorageHost": "127.0.0.1",
            "AccountingStoragePort": places.ports[1],
            "AccountingStoragePass": places.munge_socket,  # That is where Slurm looks for it.
            "AccountingStoreFlags": "job_comment",
        },
        "jobcomp": {"JobCompType": "jobcomp/filetxt", "JobCompLoc": places.jobcomp},
        "none": {},
    }[accounting]
    settings |= more
    text, ports = _lines(settings), iter(places.ports[2:])
    for node_set in nodes:
        for name in node_set.names:
            text += (
                f"NodeName={name} NodeAddr=127.0.0.1 NodeHostname={name} Port={next(ports)} "
                f"CPUs={node_set.cpus} RealMemory={node_set.memory_bytes // MIB} "
                f"Feature=platform:{node_set.platform} State=UNKNOWN\n"
            )
    force = f"FORCE:{oversubscribe}" if oversubscribe > 1 else "NO"
    return text + (
        f"PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP "
        f"OverSubscribe={force}\n"
    )


def slurmdbd_conf(places: Places, user: str) -> str:
    """``slurmdbd.conf``; the database's socket is named by ``MYSQL_UNIX_PORT``."""
    return _lines(
        {
            "AuthType": "auth/munge",
            "AuthInfo": f"socket={places.munge_socket}",
            "DbdHost": socket.gethostname(),
            "DbdAddr": "127.0.0.1",
            "DbdPort": places.ports[1],
            "SlurmUser": user,
            "PidFile": places.root / "slurmdbd.pid",
            "StorageType": "accounting_storage/mysql",
            "StorageHost": "localhost",
            "StorageUser": DATABASE_USER,
            "StorageLoc": "slurm_accounting",
        }
    )


def database_command(program: str, places: Places, user: str) -> list[str]:
    """The database's daemon: reached by its socket alone, small, and not made to last."""
    return [
        program,
        "--no-defaults",
        f"--datadir={places.root / 'database'}",
        f"--socket={places.database_socket}",
        f"--pid-file={places.root / 'database.pid'}",
        f"--user={user}",
        "--skip-networking",
        "--skip-grant-tables",
        "--innodb-buffer-pool-size=32M",
        "--innodb-log-file-size=4M",
        "--innodb-flush-log-at-trx-commit=0",
        "--innodb-lock-wait-timeout=900",
    ]
