"""What an engine sees of how workloads perform: noisy, late, once a period and server.

A server is measured only while a resident is to be. Called by ``cluster``.
"""

from collections.abc import Callable
from math import exp, inf

from wharfinger.core import events as ev
from wharfinger.model.performance import NoSignal, Quantity, Reading, Sample
from wharfinger.simulator.cluster.runs import (
    SimulatedRun,
    SimulatedServer,
    State,
    service_values,
)
from wharfinger.simulator.kernel.loop import EventLoop
from wharfinger.simulator.kernel.streams import Streams
from wharfinger.simulator.scenario.setup import Measuring

SOURCE = "simulated"
CPU, MEMORY = Quantity.CPU, Quantity.MEMORY
USED = (CPU, MEMORY)  # exact, and no performance
MEASURES = 20  # priority in the loop: what happens at a moment is measured after it


class Meters:
    """Measures workloads; ``noise`` is the standard deviation of a measurement's logarithm."""

    def __init__(
        self,
        loop: EventLoop,
        streams: Streams,
        tell: Callable[[ev.Report, float], None],
        measuring: Measuring,
    ) -> None:
        self._loop, self._streams, self._tell = loop, streams, tell
        self._measuring, self.noise = measuring, measuring.noise

    def watch(self, run: SimulatedRun | None) -> None:
        """Report from now on how it does."""
        if run is None or run.end is not None:
            return
        run.measured = True
        for part in run.parts[:1]:
            self._expect(part.machine)

    def _expect(self, machine: SimulatedServer) -> None:
        if not machine.measured:
            machine.measured = True
            at = self._loop.now + self._measuring.every_seconds
            self._loop.schedule(at, self._measure, machine, MEASURES)

    def _measure(self, machine: SimulatedServer) -> None:
        machine.measured = False
        here = [part.run for part in machine.parts]
        runs = [run for run in here if run.measured and run.parts[0].machine is machine]
        if not machine.up or not runs:
            return
        samples = tuple(self.sample(run) for run in runs if run.state is State.RUNNING)
        if samples:
            report = ev.ServerMeasured(machine.server.name, samples)
            self._tell(report, self._measuring.delay_seconds)
        self._expect(machine)

    def sample(self, run: SimulatedRun) -> Sample:
        """One workload, as it seems now."""
        run.settle(self._loop.now)
        run.measurements += 1
        readings = {
            quantity: Reading(self._noisy(value, run, quantity), SOURCE, quantity not in USED)
            for quantity, value in true_values(run).items()
        }
        if run.awaits_ready:
            wanted = [quantity for quantity in readings if quantity not in USED]
            silent = dict.fromkeys(wanted or [Quantity.RATE], NoSignal("not ready: starting"))
            return Sample(run.key, {quantity: readings[quantity] for quantity in USED}, silent)
        if readings[CPU].value == 0 and len(readings) == len(USED):
            return Sample(run.key, readings, {Quantity.RATE: NoSignal("it does nothing")})
        by_server = {part.machine.server.name: part.used_cpus for part in run.parts}
        return Sample(run.key, readings, cpu_by_server=by_server if len(by_server) > 1 else {})

    def _noisy(self, value: float, run: SimulatedRun, quantity: Quantity) -> float:
        if not self.noise or not value or quantity in USED:
            return value
        # By the job and not by the key: under every policy the n-th look errs alike.
        what = run.job.name, str(quantity), run.measurements
        return value * exp(self.noise * self._streams.normal("noise", *what))

    def error(self, value: float, *what: str | int) -> float:
        """A measurement of a profiling copy."""
        return value * exp(self.noise * self._streams.normal("profiling", *what))


def true_values(run: SimulatedRun) -> dict[Quantity, float]:
    """What can be measured of a run, as it really is."""
    values = {CPU: run.used_cpus, MEMORY: float(run.memory_bytes)}
    if run.job.load is not None:
        # What clients send is what the balancer has to share out.
        return {Quantity.OFFERED: run.load_per_second, **service_values(run), **values}
    if run.rate > 0:
        values[Quantity.RATE] = run.rate
        left = run.seconds_to(run.job.work)
        if left < inf:
            values[Quantity.REMAINING] = left
    return values
