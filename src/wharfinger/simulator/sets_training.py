"""What is measured of sets of neighbors before a simulation, and the model that is fitted to it.

Each service beside each program alone, and a random share of all sets of two and three; with an
error of measurement (Pythia 3.7).
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import combinations_with_replacement

import numpy as np

from wharfinger.contention.by_set import BySet
from wharfinger.core.seams.policy import Policy
from wharfinger.errors import InvalidInput
from wharfinger.files.contention_sets import digest_of, load_model
from wharfinger.interference.measurements import (
    DEFAULT_ERROR,
    ContentionMeasurements,
    ContentionSetting,
    MeasuredSet,
)
from wharfinger.interference.model import InterferenceModel
from wharfinger.model.workload import Workload
from wharfinger.simulator.kernel.streams import Streams
from wharfinger.simulator.scenario.jobs import Job
from wharfinger.simulator.scenario.setup import Setup
from wharfinger.simulator.truth.ground_truth import TrueResident

DEGREES = (2, 3)


def with_sets(policy: Policy, setup: Setup, seed: int) -> Policy:
    """The policy, whose contention model is the one that is named, or fitted, if it is of sets.

    Raises:
        InvalidInput: That model can't be read; or no workload of the scenario has a target of its
            rate, and none can be fitted.
    """
    contention = policy.contention
    if not isinstance(contention, BySet):
        return policy
    settings = contention.settings
    if settings.model:
        model, digest = load_model(settings.model), digest_of(settings.model)
    else:
        model, digest = _fitted(setup, seed, settings.form, settings.sample_share), ""
    return replace(policy, contention=contention.with_model(model, digest, _application))


def _application(workload: Workload) -> str:
    return workload.run.command[-1]


@lru_cache(maxsize=4)
def _fitted(setup: Setup, seed: int, form: str, share: float) -> InterferenceModel:
    return InterferenceModel.fit(form, ContentionMeasurements.of(_measured(setup, seed, share)))


def _measured(setup: Setup, seed: int, share: float) -> Iterator[MeasuredSet]:
    streams = Streams(seed)
    jobs = {job.application: job for job in setup.jobs}
    services = {job.application: job for job in setup.jobs if _keeps_a_rate(job)}
    if not services:
        raise InvalidInput(
            f"by-set: scenario {setup.name!r} has no service that is measured by its rate; "
            "choose another contention model"
        )
    names = sorted(jobs)
    sizes = {server.platform.name: server.cpu_millicpus for server in setup.servers}
    for platform, most in sizes.items():
        for name in sorted(services):
            random = streams.of(f"training/sets/{platform}/{name}")
            for neighbors in _sampled(names, share, random):
                beside = [jobs[each] for each in neighbors]
                kept = _kept(setup, platform, most, services[name], beside)
                if kept is not None:
                    kept *= float(np.exp(DEFAULT_ERROR * random.standard_normal()))
                    setting = ContentionSetting(name, platform)
                    yield MeasuredSet(setting, neighbors, kept, DEFAULT_ERROR * kept)


def _sampled(
    names: Sequence[str], share: float, random: np.random.Generator
) -> Iterator[tuple[str, ...]]:
    """All singles, and a share of the sets of each degree."""
    yield from ((name,) for name in names)
    for degree in DEGREES:
        sets = list(combinations_with_replacement(names, degree))
        count = max(1, round(share * len(sets)))
        chosen = random.choice(len(sets), count, replace=False)
        yield from (sets[at] for at in sorted(chosen.tolist()))


def _keeps_a_rate(job: Job) -> bool:
    target = job.workload.target
    return target is not None and target.rate_per_second is not None


def _kept(
    setup: Setup, platform: str, most: int, service: Job, beside: Sequence[Job]
) -> float | None:
    """Its performance beside these over that alone; ``None`` = a server does not hold them."""
    group = [
        TrueResident(each.application, float(min(each.cpu_millicpus, most)), each.memory_bytes)
        for each in (service, *beside)
    ]
    alone = setup.truth.alone(platform, group[0])
    is_held = sum(each.cpu_millicpus for each in group) <= most and setup.truth.fits(
        platform, group
    )
    if alone <= 0 or not is_held:
        return None
    return setup.truth.rates(platform, group)[0] / alone
