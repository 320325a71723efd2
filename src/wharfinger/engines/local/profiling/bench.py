"""The copy that is measured now: started, started again when it has ended, resized, listened to.

Called by ``sequence``, which says for how long and beside what.
"""

import time

from wharfinger.engines.local.profiling.copies import Copies, Copy, CopyEnd, CopyFailed
from wharfinger.engines.local.profiling.copies import wait_until_begun as _wait_until_begun
from wharfinger.engines.local.profiling.job import Job
from wharfinger.engines.local.profiling.lifeline import Lifeline
from wharfinger.engines.local.profiling.readings import STALL_GAPS, STALL_SECONDS, Readings
from wharfinger.engines.local.profiling.scores import Stretch
from wharfinger.model.performance import Quantity
from wharfinger.model.workload import Workload
from wharfinger.monitor.spec import main_quantity, wanted_quantities

POLL_SECONDS = 0.01
LOOK_SECONDS = 0.1
"""Between two looks at the I/O of a copy whose end is awaited."""
BEGIN_SECONDS = 20.0
"""For a sandbox to be set up and the program's exec, at a small share of a busy CPU."""
LEAST_STARTS = 4
"""Of the copy: Quasar's plan has at most four runs; one with more to measure has as many."""


class StartsUsedUp(Exception):
    """The copy has ended and may not be started again."""


class ProgramEnded(Exception):
    """The program ended, as a whole and well, before it told enough of how it performs.

    Attributes:
        work: That it told of as done; 0 = of none.
    """

    def __init__(self, end: CopyEnd, work: float) -> None:
        super().__init__("it ended before it told how it performs")
        self.end = end
        self.work = work


class Bench:
    """One copy at a time.

    Args:
        job: What is measured.
        copies: Starts them.
        lifeline: To wait at.

    Attributes:
        kept_starts: Starts that are kept back for what comes later.
        io_bytes_per_second: Of the copy whose end was awaited last, its I/O; ``None`` = not known.
    """

    def __init__(self, job: Job, copies: Copies, lifeline: Lifeline) -> None:
        self._job = job
        self._copies = copies
        self._lifeline = lifeline
        self._copy: Copy | None = None
        self._readings: Readings | None = None
        self._cpu_millicpus = 0
        self._since = 0.0
        self.kept_starts = 0
        self.io_bytes_per_second: float | None = None
        self._most_starts = max(LEAST_STARTS, len(job.plan.cpu_millicpus) + len(job.plan.sources))

    @property
    def copy(self) -> Copy:
        """The present one."""
        assert self._copy is not None
        return self._copy

    @property
    def readings(self) -> Readings:
        """Of the present copy."""
        assert self._readings is not None
        return self._readings

    @property
    def starts_left(self) -> int:
        """How often the copy may still be started."""
        return self._most_starts - self._copies.started - self.kept_starts

    @property
    def primary(self) -> Quantity | None:
        """The quantity that times the stretches: of those that are wanted the first one told."""
        told = self.readings.heard.told()
        wanted = [quantity for quantity in wanted_of(self._job.workload) if quantity in told]
        return next(iter((*wanted, *told)), None)

    def begin(self, cpu_millicpus: int) -> None:
        """Start a copy with this share of CPU, and listen to it.

        Raises:
            CopyFailed: There is none.
            StartsUsedUp: It was started as often as it may be.
        """
        if self.starts_left <= 0:
            raise StartsUsedUp(f"it ended, and was started {self._copies.started} times, the most")
        self.clear()
        self._cpu_millicpus = cpu_millicpus
        self._copy = self._copies.start(cpu_millicpus)
        init = _wait_until_begun(self._copy, self._lifeline.wait, BEGIN_SECONDS)
        if init or not self._copy.end().problem:
            self._readings = Readings(self._job, self._copy, init)
            self.mark()
        else:
            raise CopyFailed(self._copy.end().problem)

    def resize(self, cpu_millicpus: int) -> None:
        """Let the copy go on with another share of CPU.

        Raises:
            CopyFailed: It can't be given.
        """
        self._cpu_millicpus = cpu_millicpus
        if not self.copy.over:
            self.copy.resize(cpu_millicpus)
        self.mark()

    def mark(self) -> None:
        """What was heard until now does not count any more."""
        self._since = time.monotonic()

    def await_first(self, until: float) -> bool:
        """Wait for the first number; whether there is one.

        Raises:
            ProgramEnded: The program has ended instead, and well.
            CopyFailed: It has ended otherwise.
        """
        while True:
            over = self.copy.over  # Asked first: what it said last is then there.
            self.readings.look()
            if self.primary is not None and self.readings.heard.usual_gap(self.primary):
                return True
            if over:
                raise self.ended()
            if time.monotonic() >= until:
                return False
            self._lifeline.wait(POLL_SECONDS, self.copy.pidfd)

    def next_stretch(
        self, seconds: float, until: float, *, may_stall: bool = False
    ) -> Stretch | None:
        """Performance over the next stretch of at least that length; ``None`` = time is over.

        A program that ends is started again.

        Args:
            seconds: The least length.
            until: When time is over, on the clock of ``time.monotonic``.
            may_stall: Whether a silent counter is a performance of 0: beside a source. Else it
                is waited for, since what it says next tells of that time, too.

        Raises:
            CopyFailed: It ended otherwise than well, or can't be started again.
            StartsUsedUp: It may not.
            NeighbourFell: While a source is at work.
        """
        began = time.monotonic()
        while True:
            over = self.copy.over
            self.readings.look()
            primary = self.primary
            found = primary and self.readings.heard.stretch(primary, self._since, seconds)
            if found:
                self._since, stretch = found
                return stretch
            if may_stall and primary and not over and self._stands_still(primary, began):
                return Stretch(time.monotonic() - began, {primary: 0.0})
            if time.monotonic() >= until:
                return None
            if over:
                self._end_well()
                self.begin(self._cpu_millicpus)
            else:
                self._lifeline.wait(POLL_SECONDS)

    def _stands_still(self, primary: Quantity, began: float) -> bool:
        heard = self.readings.heard
        gap = heard.usual_gap(primary)
        if gap is None or not heard.counts(primary):
            return False
        newest = max((began, *heard.times(primary, began)[-1:]))
        return time.monotonic() - newest > max(STALL_SECONDS, STALL_GAPS * gap)

    def await_end(self, until: float) -> CopyEnd | None:
        """Wait for the program's own end; ``None`` = time was over before.

        Raises:
            CopyFailed: It ended otherwise than well.
            NeighbourFell: While a source is at work.
        """
        began, self.io_bytes_per_second = time.monotonic(), None
        while not self.copy.over:
            left = until - time.monotonic()
            if left <= 0:
                return None
            self._lifeline.wait(min(left, LOOK_SECONDS), self.copy.pidfd)
            if moved := self.copy.io_bytes():
                seconds = time.monotonic() - began
                self.io_bytes_per_second = sum(moved.values()) / seconds
        return self._end_well()

    def ended(self) -> ProgramEnded:
        """What the first run was, as a whole, once it is over.

        Raises:
            CopyFailed: It ended otherwise than well.
        """
        return ProgramEnded(self._end_well(), self.readings.heard.work())

    def _end_well(self) -> CopyEnd:
        end = self.copy.end()
        if end.problem:
            raise CopyFailed(end.problem)
        return end

    def clear(self) -> None:
        """Let no copy be left."""
        readings, self._readings = self._readings, None
        copy, self._copy = self._copy, None
        if readings is not None:
            readings.close()
        if copy is not None:
            copy.clear()


def wanted_of(workload: Workload) -> tuple[Quantity, ...]:
    """What is to be measured: what its target is about, or what its measure tells."""
    stated = wanted_quantities(workload) or (main_quantity(workload),)
    # How long the rest takes follows from the rate and the total.
    rates = (Quantity.RATE if q is Quantity.REMAINING else q for q in stated)
    return tuple(dict.fromkeys(rates))
