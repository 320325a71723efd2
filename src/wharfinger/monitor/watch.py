"""One workload under measurement: its readers, in the order in which they are believed.

The meter calls ``sample`` at every period and ``report`` for the manager.
"""

import time
from collections.abc import Callable
from pathlib import Path

from wharfinger.errors import NotFound
from wharfinger.host.run_dir import read_run
from wharfinger.model.performance import NoSignal, Quantity, Reading, Sample
from wharfinger.model.workload import MetricKind
from wharfinger.monitor import prometheus
from wharfinger.monitor.commands import Command
from wharfinger.monitor.counters import cpu_seconds
from wharfinger.monitor.endpoint import Endpoint
from wharfinger.monitor.patience import LoadPatience
from wharfinger.monitor.patterns import LIMIT_SECONDS, NUMBER, LinePattern, TookTooLong
from wharfinger.monitor.probes import Health, HealthNews, HealthWord
from wharfinger.monitor.proxy import Proxies
from wharfinger.monitor.smoothing import STALE_SECONDS
from wharfinger.monitor.source import (
    BUFFERED,
    COMMAND,
    HTTP,
    LINES,
    Hear,
    ReaderError,
    ReadingSource,
)
from wharfinger.monitor.spec import LOAD, WatchSpec
from wharfinger.monitor.streams import FileStream, LoadStream, OutputStream

MISSING_REPORT_SECONDS = 1.0
"""Between two reports of a workload that misses its target."""
RISE = 1.2
"""Of the load that is offered, since it was reported last: from there on it is news."""
BUSY_CPUS, BUSY_SECONDS = 0.05, 1.0
"""CPUs that a program keeps busy, or a load generator's CPU time, to wonder why it is silent."""

LineReader = FileStream | LoadStream | OutputStream


class Watch:
    """One workload; ``hear`` gets each number that a reader of its own metric reads.

    While its ``health`` says that it is not ready, nothing is read of its performance.
    """

    def __init__(
        self, spec: WatchSpec, clock: Callable[[], float] = time.monotonic, hear: Hear | None = None
    ) -> None:
        self.spec = spec
        self._hear = hear
        self.first_reported = False
        self.missing_reported = False
        self.reported_at = clock()
        self.offered_reported: float | None = None
        self.due = clock()
        self.health = Health(spec, clock)
        self._began = clock()
        self._clock = clock
        self._readers: list[tuple[ReadingSource, Callable[[ReadingSource], None]]] = []
        self._streams: dict[str, LineReader] = {}
        self._patience = LoadPatience()
        self._buckets: dict[float, float] | None = None
        self._proxies = Proxies(spec)
        self._closers = [self._proxies.close, self.health.close]
        self._add_readers()  # What users see comes first.

    def _add_readers(self) -> None:
        spec = self.spec
        if spec.load_regex and (spec.load_runs or spec.load_file):
            runs, file = LoadStream(Path(spec.load_runs)), FileStream(Path(spec.load_file))
            self._add_lines(LOAD, file if spec.load_file else runs, spec.load_regex, False)
        if spec.url:
            endpoint = Endpoint(spec.url)
            self._closers.append(endpoint.close)
            self._add(HTTP, lambda source: self._read_endpoint(endpoint, source))
        if spec.regex:
            output = OutputStream(Path(spec.run_dir))
            lines = FileStream(Path(spec.file)) if spec.file else output
            self._add_lines(LINES, lines, spec.regex, spec.regex_is_counter)
        if spec.command:
            command = Command(spec.command, spec.env, spec.working_directory, user=spec.user)
            self._closers.append(command.close)
            self._add(COMMAND, lambda source: self._read_command(command, source))

    def _add(self, name: str, read: Callable[[ReadingSource], None]) -> None:
        self._readers.append((ReadingSource(name, self.spec, self._hear), read))

    def _add_lines(self, name: str, stream: LineReader, regex: str, is_counter: bool) -> None:
        pattern: LinePattern | None = LinePattern(regex)
        self._streams[name] = stream

        def take(source: ReadingSource) -> None:
            nonlocal pattern
            if pattern is None:
                return
            lines = stream.read()
            if self.health.why_not_ready:
                return  # What it says before it is ready is no performance.
            source.has_lines |= bool(lines)
            try:
                numbers = pattern.newest(lines)
            except TookTooLong:
                pattern = None  # it would take so long again, and delay the others
                source.trouble = f"the pattern took longer than {LIMIT_SECONDS:g} s"
                return
            source.observe(self._clock(), numbers, is_counter=is_counter)

        self._add(name, take)

    def close(self) -> None:
        """Close what is open, and end what is under way."""
        for close in self._closers:
            close()

    def sample(self) -> None:
        """Read everything once, and keep the reason for what can't be read."""
        self.read()
        now = self._clock()
        self._proxies.sample(now, self._newest_metric(now))

    def look_at_health(self) -> list[HealthNews]:
        """What is new of its probes and, as far as it is ready, of its load generator."""
        news = self.health.look()
        if any(each.word is HealthWord.UNREADY for each in news):
            self._buckets = None
            for source, _ in self._readers:
                source.forget()
        return news

    def look_at_load(self) -> list[HealthNews]:
        """Whether its load generator is silent; once for each of its runs."""
        runs = self._streams.get(LOAD)
        if not isinstance(runs, LoadStream):
            return []
        now, ready = self._clock(), not self.health.why_not_ready
        said_at = next(source.said_at for source, _ in self._readers if source.name == LOAD)
        silent = self._patience.lost_after(now, runs.number, said_at, ready=ready)
        if silent is None:
            return []
        reason = f"it said nothing that matches for {silent:.0f} s"
        if self._seems_buffered(LOAD):
            reason += f"; {BUFFERED}"
        return [HealthNews(HealthWord.SILENT_LOAD, reason)]

    def _seems_buffered(self, name: str) -> bool:
        stream = self._streams.get(name)
        if stream is None or stream.growth.in_lumps:
            return stream is not None
        if stream.growth.begun or self._clock() - self._began < STALE_SECONDS:
            return False
        if isinstance(stream, LoadStream):
            used = load_cpu_seconds(stream.run_dir)
            return used is not None and used > BUSY_SECONDS
        cpu = self._proxies.readings(self._clock()).get(Quantity.CPU)
        return isinstance(stream, OutputStream) and cpu is not None and cpu.value > BUSY_CPUS

    def read(self) -> None:
        """Read its own metrics once, without proxies."""
        for source, read in self._readers:
            if self.health.why_not_ready and source.name in (HTTP, COMMAND):
                continue
            try:
                read(source)
            except ReaderError as error:
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
        if spec.metric_kind is not MetricKind.HISTOGRAM:
            value = prometheus.total(text, spec.metric) if spec.metric else float(text)
            is_counter = spec.metric_kind is MetricKind.COUNTER
            source.observe(asked_at, {NUMBER: value}, is_counter=is_counter)
            return
        before, self._buckets = self._buckets, prometheus.buckets(text, spec.metric)
        source.observe(asked_at, {"done": self._buckets[float("inf")]}, is_counter=True)
        between = prometheus.between(before, self._buckets) if before is not None else {}
        latency = prometheus.percentile(between, spec.percentile) if between else None
        if latency is not None:
            source.observe_level(Quantity.LATENCY, asked_at, latency)

    def _read_command(self, command: Command, source: ReadingSource) -> None:
        answer = command.take()
        if answer is not None:
            source.observe(answer[0], answer[1], is_counter=self.spec.command_is_counter)

    def _newest_metric(self, now: float) -> float | None:
        """The own metric of this moment, if more CPU time raises it, so never a latency."""
        for source, _ in self._readers:
            for quantity in (Quantity.RATE, Quantity.THROUGHPUT):
                level = source.levels.get(quantity)
                if level is None or level.seen_at is None:
                    continue
                if now - level.seen_at < self.spec.every_seconds / 2:
                    return level.newest
        return None

    @property
    def has_number(self) -> bool:
        """Whether there is anything to report."""
        own = any(source.has_value or source.trouble for source, _ in self._readers)
        return own or (not self._readers and self._proxies.has_value)

    @property
    def is_news(self) -> bool:
        """Whether to report before the next report of all.

        News is the first number, a target missed from now on or kept again, and the time between;
        and a load that has risen.
        """
        if not self.first_reported:
            return self.has_number
        missing = self.misses()
        is_due = self._clock() - self.reported_at >= MISSING_REPORT_SECONDS
        return missing != self.missing_reported or (is_due and (missing or self._has_risen))

    def note_report(self) -> None:
        """Note that it has been reported to the manager."""
        self.first_reported = self.first_reported or self.has_number
        self.missing_reported = self.misses()
        self.offered_reported = self._offered
        self.reported_at = self._clock()

    @property
    def _offered(self) -> float | None:
        """What is offered now; ``None`` = nothing tells it."""
        levels = (source.levels.get(Quantity.OFFERED) for source, _ in self._readers)
        return next((level.value for level in levels if level and level.seen_at is not None), None)

    @property
    def _has_risen(self) -> bool:
        offered, before = self._offered, self.offered_reported
        return bool(offered and before is not None and offered > RISE * before)

    def misses(self) -> bool:
        """Whether its own metrics are beyond a limit."""
        limits = self.spec.limits
        readings = self._readings(self._clock()) if limits else {}
        return any(
            quantity in readings and is_beyond(quantity, readings[quantity].value, limit)
            for quantity, limit in limits.items()
        )

    def newest(self) -> Sample:
        """What its own metrics say of this moment, unsmoothed."""
        return Sample(self.spec.key, self._readings(self._clock(), smoothed=False))

    def _readings(self, now: float, *, smoothed: bool = True) -> dict[Quantity, Reading]:
        readings: dict[Quantity, Reading] = {}
        if self.health.why_not_ready:
            return readings
        for source, _ in reversed(self._readers):
            readings.update(source.readings(now, smoothed=smoothed))
        return readings

    @property
    def trouble(self) -> str:
        """Why readers of its own metrics read nothing; empty where all do."""
        return "; ".join(source.trouble for source, _ in self._readers if source.trouble)

    def why_silent(self, quantity: Quantity) -> str:
        """Why there is no number of a quantity, for people."""
        if not self._readers:
            return "its manifest does not say how to measure it: write spec.measure"
        if self.health.why_not_ready:
            return f"not ready: {self.health.why_not_ready}"
        now = self._clock()
        reasons = [source.why_silent(now, quantity) for source, _ in self._readers]
        quiet = [source.name for source, _ in self._readers if not source.readings(now)]
        if any(map(self._seems_buffered, quiet)):
            reasons.append(BUFFERED)
        return "; ".join(dict.fromkeys(reasons))

    def report(self) -> Sample:
        """Readings, and why what is missing is silent."""
        now = self._clock()
        readings = self._proxies.readings(now) | self._readings(now)
        silent = {}
        wanted = self.spec.wanted or ((self.spec.main,) if self.spec.measured else ())
        if any(source.tells_offered for source, _ in self._readers):
            wanted = (*wanted, Quantity.OFFERED)
        for quantity in wanted:
            if quantity not in readings:
                stands_in = not self.health.why_not_ready
                estimate = self._proxies.stand_in(quantity) if stands_in else None
                if estimate is None:
                    silent[quantity] = NoSignal(self.why_silent(quantity))
                else:
                    readings[quantity] = estimate
        return Sample(self.spec.key, readings, silent)


def load_cpu_seconds(run_dir: Path | None) -> float | None:
    """CPU time of what runs in a run directory; ``None`` = unknown."""
    if run_dir is None:
        return None
    try:
        supervisor = read_run(run_dir).supervisor
    except NotFound:
        return None
    return cpu_seconds("", supervisor.pid) if supervisor else None


def is_beyond(quantity: Quantity, value: float, limit: float) -> bool:
    """Whether a value is on the wrong side of its limit.

    >>> is_beyond(Quantity.THROUGHPUT, 80.0, 90.0), is_beyond(Quantity.LATENCY, 0.2, 0.25)
    (True, False)
    """
    return value > limit if quantity is Quantity.LATENCY else value < limit
