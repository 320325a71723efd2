"""When what runs is taken to be in another phase, and how it is probed (Paragon 3.4)."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class LevelSettings:
    """When performance has left its level; durations are in seconds.

    Attributes:
        allowance: Of each measurement, in its standard deviations: half of the change to be found.
        threshold: Of the sum beyond the allowance, likewise: rarely reached by noise.
        noise: Smallest standard deviation of one measurement, of the logarithm.
        min_shift: Smallest change of level that is a reason, of the logarithm; a smaller one is the
            new level.
        warm_up: Measurements that make a level.
        level_settling_seconds: After a start, an adjustment or a change of neighbors, what is
            measured belongs to no level.
        doubt: Standard deviation of the next level after an adjustment, of the logarithm.
        neighbor_doubt: The same after a neighbor came or left.
        clear: Of these, beyond which the next level is another phase's.
    """

    allowance: float = 0.8
    threshold: float = 6.0
    noise: float = 0.03
    min_shift: float = 0.125
    warm_up: int = 2
    level_settling_seconds: float = 10.0
    doubt: float = 0.1
    neighbor_doubt: float = 0.2
    clear: float = 3.0


@dataclass(frozen=True, slots=True)
class PhaseSettings:
    """How phases are found; durations are in seconds.

    Attributes:
        reactive: Whether one that leaves its level is probed.
        share: Of those that run, how many are probed in each period without a reason; 0 = none.
        period_seconds: Length of that period.
        sources: How many sources rise, one after the other.
        tolerance: How far performance may drop beside them, as a share.
        min_tolerance: With less above its target, it is not probed without a reason.
        between_seconds: Between two probes of a workload.
        deviates: Standard deviations by which a score must differ to be another one.
        min_points: Smallest such difference.
        caused_points: Least standard deviation of a caused score in that comparison.
        estimated_points: Standard deviation that scores have besides, which were never measured.
        elsewhere_points: The same of scores that were measured on another platform, whose caches
            and buses are others.
        clear_shift: Change of level since its scores were taken that is another phase's by itself,
            of the logarithm.
        pressed_shift: Change of level, of the logarithm, up to which a neighbor whose allocation
            was changed as it began is taken to be why.
        copied_bytes: Of memory, what a copy of a running workload may hold: more is too much state.
        level: When performance has left its level.
    """

    reactive: bool = True
    share: float = 0.2
    period_seconds: float = 600.0
    sources: int = 2
    tolerance: float = 0.05
    min_tolerance: float = 0.02
    between_seconds: float = 60.0
    deviates: float = 2.0
    min_points: float = 15.0
    caused_points: float = 12.0
    estimated_points: float = 20.0
    elsewhere_points: float = 35.0
    clear_shift: float = 0.2
    pressed_shift: float = 0.3
    copied_bytes: float = 16.0 * 2**30
    level: LevelSettings = field(default_factory=LevelSettings)
