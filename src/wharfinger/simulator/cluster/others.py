"""Jobs of others on a simulated cluster: they take room that is free, and give it back.

They touch nothing of what runs there but the room (``SimulatedCluster.occupy``). One that finds
none waits for it; those that wait are asked in the order in which they came, and have what an end
frees before the manager hears of it, as those have that came before it to a site's own queue.
"""

from collections.abc import Sequence

from wharfinger.model.allocation import Allocation
from wharfinger.simulator.cluster.cluster import SimulatedCluster
from wharfinger.simulator.cluster.runs import SimulatedServer, State
from wharfinger.simulator.scenario.others import ForeignJob

FOREIGN = 4
"""Priority of their coming and going among the events of one moment: after what ends."""
RETRY_SECONDS = 10.0
"""Between two looks for room, while one waits."""


class ForeignJobs:
    """Those of one run; ``begin`` puts the first of them into the loop.

    Attributes:
        waiting: Those that have found no room yet, in order.
    """

    def __init__(self, cluster: SimulatedCluster, jobs: Sequence[ForeignJob]) -> None:
        self._cluster, self._jobs = cluster, jobs
        self._next = 0
        self.waiting: list[ForeignJob] = []
        self._is_looking = False

    def begin(self) -> None:
        """The first is expected."""
        if self._jobs:
            self._cluster.room_freed = self._look
        self._expect()

    def _expect(self) -> None:
        if self._next < len(self._jobs):
            job = self._jobs[self._next]
            self._cluster.loop.schedule(job.at_seconds, self._arrive, job, FOREIGN)

    def _arrive(self, job: ForeignJob) -> None:
        self._next += 1
        self._expect()
        self.waiting.append(job)
        self._look()

    def _look(self) -> None:
        """Those that wait begin in order, as far as there is room."""
        waiting, self.waiting = self.waiting, []
        for job in waiting:
            machine = self._room_for(job)
            if machine is None:
                self.waiting.append(job)
            else:
                self._hold(machine, job)
        if self.waiting and not self._is_looking:
            self._is_looking = True
            self._cluster.loop.schedule(self._cluster.now + RETRY_SECONDS, self._look_again, None)

    def _look_again(self, _nothing: None) -> None:
        """A resize may have left room."""
        self._is_looking = False
        self._look()

    def _room_for(self, job: ForeignJob) -> SimulatedServer | None:
        machines = list(self._cluster.machines.values())
        first = int(job.where * len(machines))
        starting = self._starting()
        for machine in (*machines[first:], *machines[:first]):
            server, held = machine.server, starting.get(machine.server.name, [])
            cpu = machine.allocated_millicpus + sum(each.cpu_millicpus for each in held)
            memory = machine.memory_allocated_bytes + sum(each.memory_bytes for each in held)
            fits = job.cpu_millicpus <= server.cpu_millicpus - server.others_cpu_millicpus - cpu
            left_bytes = server.memory_bytes - server.others_memory_bytes - memory
            if fits and job.memory_bytes <= left_bytes:
                return machine
        return None

    def _starting(self) -> dict[str, list[Allocation]]:
        """By server, what those will hold that have not begun there yet."""
        found: dict[str, list[Allocation]] = {}
        for run in self._cluster.runs:
            for placement in run.placements if run.state is State.STARTING else ():
                found.setdefault(placement.server, []).append(placement.allocation)
        return found

    def _hold(self, machine: SimulatedServer, job: ForeignJob) -> None:
        self._change(machine, job, 1)
        self._cluster.loop.schedule(self._cluster.now + job.seconds, self._end, (machine, job))

    def _end(self, held: tuple[SimulatedServer, ForeignJob]) -> None:
        machine, job = held
        if machine.up:  # A server that was away and came back is another machine.
            self._change(machine, job, -1)
        self._look()

    def _change(self, machine: SimulatedServer, job: ForeignJob, sign: int) -> None:
        server = machine.server
        self._cluster.occupy(
            server.name,
            server.others_cpu_millicpus + sign * job.cpu_millicpus,
            server.others_memory_bytes + sign * job.memory_bytes,
        )
