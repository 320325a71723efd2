"""When a change of the load that is offered is taken to be one, and how soon it is sized for."""

from dataclasses import dataclass

from wharfinger.policies.adaptation.phase_settings import LevelSettings


@dataclass(frozen=True, slots=True)
class DemandSettings:
    """When a service is sized for the load that is offered; durations are in seconds.

    Attributes:
        follow_demand: Whether it is; without that, its latency tells of a rise.
        rise_allowance: Of each measurement, in its standard deviations: half of the change of load
            to be found.
        rise_threshold: Of the sum beyond the allowance, likewise: rarely reached by noise.
        offered_noise: Standard deviation of one measurement of the load, of the logarithm, before
            it is known.
        min_offered_noise: Smallest such.
        noise_newest_share: Of the newest two measurements, in what is known of it.
        min_rise: Smallest change of the load that is one, of the logarithm.
        clear_rise: Smallest rise, in the standard errors of the two levels of the load.
        risen_seconds: How long a rise is a reason to add CPU before the target is missed.
        rise_settling_seconds: Time between two adjustments for the same rise.
        held_newest_share: Of the newest measurement, in the share of its capacity that a service
            holds at its bound.
        forecast: Whether CPU is added before a rise that is forecast, and not given back before it.
        forecast_seconds: How far ahead: what it takes to get CPU and to have an effect.
        forecast_confidence: That the load is not below the least forecast, which must be more than
            is held.
    """

    follow_demand: bool = True
    rise_allowance: float = 0.8
    rise_threshold: float = 6.0
    offered_noise: float = 0.1
    min_offered_noise: float = 0.03
    noise_newest_share: float = 0.1
    min_rise: float = 0.05
    clear_rise: float = 4.0
    risen_seconds: float = 20.0
    rise_settling_seconds: float = 2.0
    held_newest_share: float = 0.2
    forecast: bool = True
    forecast_seconds: float = 30.0
    forecast_confidence: float = 0.8

    @property
    def level(self) -> LevelSettings:
        """As those of any other level."""
        return LevelSettings(
            allowance=self.rise_allowance,
            threshold=self.rise_threshold,
            noise=self.min_offered_noise,
            min_shift=self.min_rise,
            warm_up=1,
        )
