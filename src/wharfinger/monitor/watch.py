"""One workload under measurement: its readers, its smoothed levels, its proxies.

The meter calls ``sample`` at every period and ``report`` when the manager is to be told.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from wharfinger.model.performance import NoSignal, Quantity, Reading, Sample
from wharfinger.model.workload import NAMED_NUMBERS, MetricKind
from wharfinger.monitor import counters, prometheus
from wharfinger.monitor.commands import Command, CommandError
from wharfinger.monitor.endpoint import Endpoint, EndpointError
from wharfinger.monitor.patterns import LIMIT_SECONDS, NUMBER, LinePattern, TookTooLong
from wharfinger.monitor.proxy import ProxyCheck
from wharfinger.monitor.smoothing import Counter, Level
from wharfinger.monitor.spec import LOAD, WatchSpec
from wharfinger.monitor.streams import FileStream, LoadStream, OutputStream

LINES, HTTP, COMMAND = "progress lines", "HTTP endpoint", "command"
CPU_TIME, COUNTED = "CPU time", "instructions"

Hear = Callable[[str, Quantity, float, float, bool], None]
"""Told of each number as it was read: its source, what it says, when, the number, and whether it
is a count of work done."""

MISSING_REPORT_SECONDS = 1.0
"""Between two reports of a workload that misses its target."""

QUANTITIES = {
    "rate": Quantity.RATE,
    "throughput": Quantity.THROUGHPUT,
    "latency": Quantity.LATENCY,
}


class ReadingSource:
    """What one reader has told, smoothed."""

    def __init__(self, name: str, spec: WatchSpec, hear: Hear | None = None) -> None:
        self.name = name
        self._hear = hear
        self.levels: dict[Quantity, Level] = {}
        self.done = Counter()
        self.trouble = ""
        self._spec = spec

    def observe(self, now: float, numbers: dict[str, float], *, is_counter: bool) -> None:
        """Take in numbers by the names that their groups have."""
        if numbers:
            self.trouble = ""
        for name, value in numbers.items():
            plain = ("done" if is_counter else "", 1.0)
            word, scale = plain if name == NUMBER else NAMED_NUMBERS[name]
            if word == "done" and value < 0:
                # Less than nothing can't be done: it is no count.
                self.trouble = f"{self.name}: {value:g} is no work done so far; {self._mend}"
            elif word == "done":
                self.done.observe(now, value)
                self.levels[self._counted] = self.done.rate
                self._tell(self._counted, now, value, counts=True)
            else:
                self.observe_level(QUANTITIES.get(word, self._spec.main), now, value * scale)

    def observe_level(self, quantity: Quantity, now: float, value: float) -> None:
        """Take in a number that is a performance."""
        if quantity not in self.levels:
            is_latency = quantity is Quantity.LATENCY
            self.levels[quantity] = Level.of_latency() if is_latency else Level()
        self.levels[quantity].observe(now, value)
        self._tell(quantity, now, value, counts=False)

    def _tell(self, quantity: Quantity, now: float, value: float, *, counts: bool) -> None:
        if self._hear is not None:
            self._hear(self.name, quantity, now, value, counts)

    @property
    def told(self) -> bool:
        """Whether it has said anything that is a performance."""
        return any(level.seen_at is not None for level in self.levels.values())

    @property
    def _counted(self) -> Quantity:
        """What the growth of a counter is: of a service its throughput."""
        main = self._spec.main
        return Quantity.THROUGHPUT if main is Quantity.LATENCY else main

    @property
    def _mend(self) -> str:
        """What to write where a number is taken for a count and is none."""
        field = "commandKind" if self.name == COMMAND else "kind"
        return f"if it is a performance, write {field}: gauge, or name it rate"

    def readings(self, now: float, *, smoothed: bool = True) -> dict[Quantity, Reading]:
        """What it says now; what is stale it does not say."""
        found = {
            quantity: Reading(level.value if smoothed else level.newest, self.name)
            for quantity, level in self.levels.items()
            if level.seen_at is not None and level.silent_seconds(now) is None
        }
        total, rate = self._spec.total, found.get(self._counted)
        if total is not None and self.done.last and rate and rate.value > 0:
            told_at, done = self.done.last
            left_seconds = max(0.0, total - done) / rate.value - (now - told_at)
            found[Quantity.REMAINING] = Reading(max(0.0, left_seconds), self.name)
        return found

    def why_silent(self, now: float, quantity: Quantity) -> str:
        """Why it does not say a quantity."""
        if self.trouble:
            return self.trouble
        if quantity is Quantity.REMAINING:
            return self._why_no_end(now)
        level = self.levels.get(quantity)
        silence = None if level is None else level.silent_seconds(now)
        counted = self.done.last if quantity in (self._counted, Quantity.RATE) else None
        if counted and self.done.fell_from is not None:
            fall = f"fell from {self.done.fell_from:g} to {counted[1]:g}"
            return f"{self.name}: the count of work done {fall}; {self._mend}"
        if silence is not None:
            return f"nothing new from {self.name} for {silence:.0f} s"
        if counted:
            return f"{self.name}: one number only, a rate needs two"
        if self.told and quantity is Quantity.LATENCY and not self._spec.reads_histogram:
            return f"{self.name}: no latency; a number named latency_ms or a histogram tells it"
        return f"nothing from {self.name} yet"

    def _why_no_end(self, now: float) -> str:
        if self._spec.total is None:
            return "no total is stated, so its end is not known: write measure.progress.total"
        rate = self.readings(now).get(self._counted)
        return "it makes no progress" if rate else self.why_silent(now, self._counted)


class Watch:
    """One workload.

    Args:
        spec: What to read.
        clock: Seconds that only go forward.
        hear: Told of each number that a reader of its own metric reads.
    """

    def __init__(
        self,
        spec: WatchSpec,
        clock: Callable[[], float] = time.monotonic,
        hear: Hear | None = None,
    ) -> None:
        self.spec = spec
        self._hear = hear
        self.told_first = False
        self.told_missing = False
        self.told_at = clock()
        self.due = clock()
        self._clock = clock
        self._readers: list[tuple[ReadingSource, Callable[[ReadingSource], None]]] = []
        self._closers: list[Callable[[], None]] = []
        self._buckets: dict[float, float] | None = None
        self._cpu = Counter()
        self._instructions = Counter()
        self._useful = 0.0
        self._counted: list[float] | None = None
        self._counters: counters.Counters | None = None
        self._counters_wanted = True
        self._check = ProxyCheck()
        self._add_readers()

    def _add_readers(self) -> None:
        """In the order in which they are believed: what users see comes first."""
        spec = self.spec
        if spec.load_regex and (spec.load_runs or spec.load_file):
            runs, file = LoadStream(Path(spec.load_runs)), FileStream(Path(spec.load_file))
            lines = file.read if spec.load_file else runs.read
            self._add_lines(LOAD, lines, spec.load_regex, False)
        if spec.url:
            endpoint = Endpoint(spec.url)
            self._closers.append(endpoint.close)
            self._add(HTTP, lambda source: self._read_endpoint(endpoint, source))
        if spec.regex:
            path = Path(spec.file) if spec.file else None
            read = FileStream(path).read if path else OutputStream(Path(spec.run_dir)).read
            self._add_lines(LINES, read, spec.regex, spec.regex_is_counter)
        if spec.command:
            command = Command(spec.command, spec.env, spec.working_directory)
            self._closers.append(command.close)
            self._add(COMMAND, lambda source: self._read_command(command, source))

    def _add(self, name: str, read: Callable[[ReadingSource], None]) -> None:
        self._readers.append((ReadingSource(name, self.spec, self._hear), read))

    def _add_lines(
        self, name: str, read: Callable[[], list[str]], regex: str, is_counter: bool
    ) -> None:
        pattern: LinePattern | None = LinePattern(regex)

        def take(source: ReadingSource) -> None:
            nonlocal pattern
            if pattern is None:
                return
            try:
                numbers = pattern.newest(read())
            except TookTooLong:
                pattern = None  # It would take so long again, and the others wait meanwhile.
                source.trouble = f"the pattern took longer than {LIMIT_SECONDS:g} s"
                return
            source.observe(self._clock(), numbers, is_counter=is_counter)

        self._add(name, take)

    def close(self) -> None:
        """Let go of all that is open or under way."""
        for close in self._closers:
            close()
        if self._counters is not None:
            self._counters.close()

    # --- sampling ------------------------------------------------------------------------------

    def sample(self) -> None:
        """Read everything once; what can't be read has its reason kept."""
        self.read()
        self._sample_proxies()

    def read(self) -> None:
        """Read its own metrics once, and leave out what could stand in for them."""
        for source, read in self._readers:
            try:
                read(source)
            except (EndpointError, CommandError) as error:
                source.trouble = str(error)
            except OSError as error:
                where = f"{self.spec.file}: " if self.spec.file and source.name == LINES else ""
                source.trouble = f"{where}{error.strerror or error}"
            except ValueError as error:
                source.trouble = f"{source.name}: {error}"

    def _read_endpoint(self, endpoint: Endpoint, source: ReadingSource) -> None:
        answer = endpoint.take()
        if answer is None:
            return
        asked_at, text = answer
        spec = self.spec
        if spec.metric_kind is MetricKind.HISTOGRAM:
            self._read_histogram(asked_at, text, source)
            return
        value = prometheus.total(text, spec.metric) if spec.metric else float(text)
        is_counter = spec.metric_kind is MetricKind.COUNTER
        source.observe(asked_at, {NUMBER: value}, is_counter=is_counter)

    def _read_histogram(self, asked_at: float, text: str, source: ReadingSource) -> None:
        now = prometheus.buckets(text, self.spec.metric)
        before, self._buckets = self._buckets, now
        source.observe(asked_at, {"done": now[float("inf")]}, is_counter=True)
        if before is None:
            return
        found = prometheus.percentile(prometheus.between(before, now), self.spec.percentile)
        if found is not None:
            source.observe_level(Quantity.LATENCY, asked_at, found)

    def _read_command(self, command: Command, source: ReadingSource) -> None:
        answer = command.take()
        if answer is not None:
            source.observe(answer[0], answer[1], is_counter=self.spec.command_is_counter)

    def _sample_proxies(self) -> None:
        now = self._clock()
        used = counters.cpu_seconds(self.spec.cpu_file, self.spec.supervisor_pid)
        if used is not None:
            self._cpu.observe(now, used)
        self._count_instructions(now)
        metric = self._newest_metric(now)
        proxy = self._proxy.rate
        if metric is not None and proxy.seen_at is not None:
            self._check.compare(proxy.newest, metric)

    def _count_instructions(self, now: float) -> None:
        if self._counters_wanted and self._counters is None:
            self._counters_wanted = False
            with suppress(counters.NoCounters, OSError):
                events = (counters.INSTRUCTIONS, counters.BRANCHES)
                spec = self.spec
                self._counters = counters.open_counters(
                    events, spec.perf_group, spec.supervisor_pid
                )
        if self._counters is None:
            return
        count = self._counters.read()
        before, self._counted = self._counted or count, count
        self._useful += counters.useful_instructions(count[0] - before[0], count[1] - before[1])
        self._instructions.observe(now, self._useful)

    @property
    def _proxy(self) -> Counter:
        return self._cpu if self._counters is None else self._instructions

    def _newest_metric(self, now: float) -> float | None:
        """The own metric of this moment, if more CPU time raises it: latency is none such."""
        for source, _ in self._readers:
            for quantity in (Quantity.RATE, Quantity.THROUGHPUT):
                level = source.levels.get(quantity)
                if level is None or level.seen_at is None:
                    continue
                if now - level.seen_at < self.spec.every_seconds / 2:
                    return level.newest
        return None

    # --- reporting -----------------------------------------------------------------------------

    @property
    def has_number(self) -> bool:
        """Whether there is anything to report but that there is nothing yet."""
        own = any(source.told or source.trouble for source, _ in self._readers)
        return own or (not self._readers and self._cpu.rate.seen_at is not None)

    @property
    def is_news(self) -> bool:
        """Whether to tell now what would be told at the next report of all.

        The first number; a target that is left, and how it does until it is kept again.
        """
        if not self.told_first:
            return self.has_number
        missing = self.misses()
        is_due = self._clock() - self.told_at >= MISSING_REPORT_SECONDS
        return missing != self.told_missing or (missing and is_due)

    def told(self) -> None:
        """The manager is told now what is known."""
        self.told_first = self.told_first or self.has_number
        self.told_missing = self.misses()
        self.told_at = self._clock()

    def misses(self) -> bool:
        """Whether something is beyond its limit by what it says itself."""
        now, limits = self._clock(), self.spec.limits
        readings: dict[Quantity, Reading] = {}
        for source, _ in reversed(self._readers if limits else []):
            readings.update(source.readings(now))
        return any(
            quantity in readings and is_beyond(quantity, readings[quantity].value, limit)
            for quantity, limit in limits.items()
        )

    def newest(self) -> Sample:
        """What its own metrics say of this moment, unsmoothed."""
        now = self._clock()
        readings: dict[Quantity, Reading] = {}
        for source, _ in reversed(self._readers):
            readings.update(source.readings(now, smoothed=False))
        return Sample(self.spec.key, readings)

    @property
    def trouble(self) -> str:
        """Why readers of its own metrics read nothing; empty where all do."""
        return "; ".join(source.trouble for source, _ in self._readers if source.trouble)

    def why_silent(self, quantity: Quantity) -> str:
        """Why there is no number of a quantity, for people."""
        return self._why_silent(self._clock(), quantity)

    def report(self) -> Sample:
        """What is known now."""
        now = self._clock()
        self._check.judge()
        readings = self._proxy_readings(now)
        for source, _ in reversed(self._readers):
            readings.update(source.readings(now))
        silent = {}
        for quantity in self._expected():
            if quantity not in readings:
                self._stand_in(quantity, readings)
            if quantity not in readings:
                silent[quantity] = NoSignal(self._why_silent(now, quantity))
        return Sample(self.spec.key, readings, silent)

    def _expected(self) -> tuple[Quantity, ...]:
        return self.spec.wanted or ((self.spec.main,) if self.spec.measured else ())

    def _why_silent(self, now: float, quantity: Quantity) -> str:
        if not self._readers:
            return "its manifest does not say how to measure it: write spec.measure"
        reasons = (source.why_silent(now, quantity) for source, _ in self._readers)
        return "; ".join(dict.fromkeys(reasons))

    def _proxy_readings(self, now: float) -> dict[Quantity, Reading]:
        found = {}
        for quantity, name, counter in (
            (Quantity.CPU, CPU_TIME, self._cpu),
            (Quantity.INSTRUCTIONS, COUNTED, self._instructions),
        ):
            level = counter.rate
            if level.seen_at is not None and level.silent_seconds(now) is None:
                checked = counter is self._proxy
                correlation = self._check.correlation if checked else None
                trusted = checked and self._check.trusted
                found[quantity] = Reading(level.value, f"{name} (proxy)", trusted, correlation)
        return found

    def _stand_in(self, quantity: Quantity, readings: dict[Quantity, Reading]) -> None:
        """A proxy that was found to go with the metric speaks for it while it is silent."""
        name = CPU_TIME if self._counters is None else COUNTED
        if quantity not in (Quantity.RATE, Quantity.THROUGHPUT):
            return
        estimate = self._check.estimate(self._proxy.rate.value)
        if estimate is not None:
            correlation = self._check.correlation
            readings[quantity] = Reading(estimate, f"{name} (proxy, trusted)", True, correlation)


def is_beyond(quantity: Quantity, value: float, limit: float) -> bool:
    """Whether a value is on the wrong side of its limit.

    >>> is_beyond(Quantity.THROUGHPUT, 80.0, 90.0), is_beyond(Quantity.LATENCY, 0.2, 0.25)
    (True, False)
    """
    return value > limit if quantity is Quantity.LATENCY else value < limit
