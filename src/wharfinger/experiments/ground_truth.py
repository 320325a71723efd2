"""Experiments on the ground truth itself, over populations, as data.

They describe the simulator, or what the inside of single runs tells. A seed draws a population, so
intervals are over populations. A ``GroundTruthStudy`` names the function that measures one, the
published numbers and the pictures; ``registry.py`` lists all.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from wharfinger.errors import InvalidInput
from wharfinger.experiments import parallel
from wharfinger.experiments.base import Arguments, Context, ExperimentResult, ResultRow
from wharfinger.experiments.statistics import interval
from wharfinger.model.interference import SharedResource
from wharfinger.model.platform import MILLICPUS_PER_CPU
from wharfinger.simulator.kernel.streams import Streams
from wharfinger.simulator.truth.ground_truth import TrueResident, busy_cpus
from wharfinger.simulator.truth.physics.application import Application
from wharfinger.simulator.truth.physics.pools import Pool, draw_pool
from wharfinger.simulator.truth.physics.regimes import DEFAULT, Regime, find_regime
from wharfinger.simulator.truth.physics.truth import Physics
from wharfinger.simulator.truth.queueing import QueueShare

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Panels = Mapping[str, Any]
"""By panel, the data for a function of ``physics_plots``."""


@dataclass(frozen=True, slots=True, eq=False)
class StudyFindings:
    """Measurements of one population, or of given tables: numbers, panels by picture, notes."""

    numbers: Mapping[str, float]
    drawn: Mapping[str, Panels] = field(default_factory=dict)
    said: tuple[str, ...] = ()


def together(parts: Sequence[StudyFindings]) -> StudyFindings:
    """The findings of all parts of one population."""
    numbers: dict[str, float] = {}
    drawn: dict[str, Panels] = {}
    for part in parts:
        numbers |= part.numbers
        for picture, panels in part.drawn.items():
            drawn[picture] = {**drawn.get(picture, {}), **panels}
    return StudyFindings(numbers, drawn, tuple(words for part in parts for words in part.said))


def of_first(panels: Sequence[Panels]) -> Panels:
    """The first population alone."""
    return panels[0]


def pooled(panels: Sequence[Panels]) -> Panels:
    """The values of all populations together."""
    return _joined(panels, np.concatenate)


def mean_curve(panels: Sequence[Panels]) -> Panels:
    """The means of the curves over populations."""
    return _joined(panels, lambda each: (each[0][0], np.mean([up for _, up in each], axis=0)))


def _joined(panels: Sequence[Panels], join: Callable[[list[Any]], Any]) -> Panels:
    return {
        panel: {name: join([each[panel][name] for each in panels]) for name in group}
        for panel, group in panels[0].items()
    }


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture of a study.

    Attributes:
        name: Of the file, and key of ``StudyFindings.drawn``.
        draw: A function of ``physics_plots``; ``options`` are further arguments of it.
        over: Combines the panels of several populations.
    """

    name: str
    draw: "Callable[..., Figure]"
    title: str
    options: Mapping[str, Any] = field(default_factory=dict)
    over: Callable[[Sequence[Panels]], Panels] = of_first


@dataclass(frozen=True, slots=True)
class GroundTruthStudy:
    """Measures drawn populations: a table with published numbers, and pictures.

    Attributes:
        source: Paper and section, table or figure; or that nothing was published.
        measure: Measures the population of a regime and a seed; a function of a module.
        scale: Of the clusters that it simulates. It takes ``scale``, and ``workloads``, where
            ``None`` = as scaled. ``None`` = it simulates none, and takes neither.
        published: Numbers of papers, by the names of measured ones.
        units: By pattern of names, the first that matches; else ``"fraction"``.
        remarks: Makes notes from the first population.
        tables: Reads files, and returns a function that measures them with a seed.
        files: Which, and what they are.
        parts: ``measure`` takes one of them as ``part``, and measures that of a population; each is
            a piece of work of its own. Empty = a population is one.
        machine: It measures real programs on this machine, one after the other, with what a seed
            draws: ``measure`` takes a scale in place of a regime.
    """

    name: str
    about: str
    source: str
    measure: Callable[..., StudyFindings]
    pictures: tuple[Picture, ...]
    published: Mapping[str, float] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    remarks: Callable[[StudyFindings], Iterable[str]] = lambda _: ()
    tables: Callable[[Sequence[Path]], Callable[[int], StudyFindings]] | None = None
    files: tuple[str, str] = ("*.csv", "matrices as `classify evaluate` reads them")
    repeats: int = 7
    scale: float | None = None
    parts: tuple[str, ...] = ()
    machine: bool = False

    @property
    def takes(self) -> frozenset[str]:
        """The options that apply."""
        if self.machine:
            return frozenset({"scale"})
        some = {"tables": self.tables, "scale": self.scale, "workloads": self.scale}
        return frozenset({"regime"} | {name for name, on in some.items() if on is not None})

    def check(self, arguments: Arguments) -> None:
        """Refuse an unknown regime, and files that can't be read."""
        find_regime(arguments.regime or DEFAULT)
        if self.tables is not None and arguments.tables is not None:
            self.tables(_files(arguments.tables, *self.files))

    def run(self, context: Context) -> ExperimentResult:
        """Measure each population, and the given tables."""
        arguments = context.arguments
        regime = () if self.machine else (f"Regime {arguments.regime or DEFAULT}.",)
        parts = self.parts or ("",)
        found = parallel.each(
            partial(_measure, self._of(arguments)),
            [(seed, part) for seed in arguments.seeds for part in parts],
            lambda piece: " ".join(filter(None, ("population", str(piece[0]), piece[1]))),
            1 if self.machine else context.processes,
            context.progress,
        )
        populations = [
            together(found[at : at + len(parts)]) for at in range(0, len(found), len(parts))
        ]
        measured = list(self._measured(context))
        return ExperimentResult(
            self.name,
            arguments.seeds,
            (*self._rows(populations, self.published), *self._rows(measured, {})),
            (*regime, *self.notes, *self.remarks(populations[0]), *populations[0].said),
            pictures={
                each.name: partial(_draw, each, populations, measured) for each in self.pictures
            },
        )

    def _of(self, arguments: Arguments) -> Callable[..., StudyFindings]:
        if self.machine:
            return partial(self.measure, arguments.scale or 1.0)
        return partial(
            self.measure, find_regime(arguments.regime or DEFAULT), **self._size(arguments)
        )

    def _size(self, arguments: Arguments) -> dict[str, float | int | None]:
        if self.scale is None:
            return {}
        scale = 1.0 if arguments.workloads else self.scale
        return {"workloads": arguments.workloads, "scale": arguments.scale or scale}

    def _measured(self, context: Context) -> Iterator[StudyFindings]:
        directory = context.arguments.tables
        if self.tables is not None and directory is not None:
            kept = context.space.read(
                directory, [path.name for path in _files(directory, *self.files)]
            )
            yield self.tables(_files(kept, *self.files))(context.arguments.seed)

    def _rows(
        self, populations: Sequence[StudyFindings], published: Mapping[str, float]
    ) -> Iterator[ResultRow]:
        names = [name for each in populations for name in each.numbers]
        for name in dict.fromkeys([*names, *published]):
            mean = interval(each.numbers.get(name) for each in populations)
            yield ResultRow.of(name, mean, self._unit(name), published.get(name))

    def _unit(self, name: str) -> str:
        fitting = (unit for pattern, unit in self.units.items() if fnmatchcase(name, pattern))
        return next(fitting, "fraction")


def _measure(measure: Callable[..., StudyFindings], piece: tuple[int, str]) -> StudyFindings:
    seed, part = piece
    return measure(seed, part=part) if part else measure(seed)


def _draw(
    picture: Picture, populations: Sequence[StudyFindings], measured: Sequence[StudyFindings]
) -> "Figure":
    panels = dict(picture.over([each.drawn[picture.name] for each in populations]))
    for each in measured:
        for panel, data in each.drawn.get(picture.name, {}).items():
            both = isinstance(data, Mapping) and panel in panels
            panels[panel] = {**panels[panel], **data} if both else data
    return picture.draw(panels, picture.title, **picture.options)


def _files(directory: Path, pattern: str, about: str) -> list[Path]:
    paths = sorted(directory.glob(pattern))
    if not paths:
        raise InvalidInput(
            f"--tables: {str(directory)!r} has no {pattern}; name a directory of {about}, "
            "or leave it out"
        )
    return paths


# --- shared by studies ----------------------------------------------------------------------


def draw_programs(
    pools: Iterable[Pool], regime: Regime, seed: int, most: int | None = None
) -> list[Application]:
    """Programs of one population, at most so many of each pool."""
    streams = Streams(seed)
    return [each for pool in pools for each in draw_pool(pool, regime, streams)[:most]]


def rate_beside(
    truth: Physics,
    platform: str,
    resident: TrueResident,
    beside: SharedResource | None,
    intensity: float = 100.0,
) -> float | None:
    """Of a program beside a source of interference; ``None`` = the platform has no such source."""
    if beside is None:
        return truth.alone(platform, resident)
    source = truth.source(platform, beside, intensity, resident)
    return truth.rates(platform, [resident, source])[0] if source else None


def at(
    application: Application,
    cpus: float,
    memory_bytes: float | None = None,
    load_per_second: float | None = None,
    servers: int = 1,
) -> TrueResident:
    """A resident with that many CPUs, by default with its whole footprint in memory."""
    memory = application.footprint_bytes if memory_bytes is None else memory_bytes
    return TrueResident(
        application.name, MILLICPUS_PER_CPU * cpus, int(memory), load_per_second, servers
    )


def p99_seconds(
    truth: Physics, platform: str, service: TrueResident, beside: Sequence[TrueResident] = ()
) -> float:
    """99th percentile of a service's latency at its load, with co-runners."""
    assert service.load_per_second is not None
    group = [service, *beside]
    rates = truth.rates(platform, group)
    used = truth.used_millicpus(platform, group, rates)[0]
    share = QueueShare(service.load_per_second, rates[0], busy_cpus(service, rates[0], used))
    return truth.queue(service.application).latency_seconds([share], 99)
