"""The law of latency against a queue that is played through, query by query."""

import heapq
from math import log

import numpy as np
import pytest

from wharfinger.model.workload import LatencyBound
from wharfinger.native import beyond
from wharfinger.simulator.truth.queueing import (
    GIVE_UP_SECONDS,
    ONE_AT_A_TIME,
    Queue,
    QueueShare,
)

QUERIES = 100_000


def drawn_services(variation: float, random: np.random.Generator) -> np.ndarray:
    """Gamma: another distribution than the law assumes, with the same mean and variation."""
    return random.gamma(1 / variation, variation, QUERIES)


def played(load: float, workers: int, variation: float) -> float:
    """The 99th percentile of the time in the system, in mean service times."""
    random = np.random.default_rng(1)
    arrivals = np.cumsum(random.exponential(1 / (load * workers), QUERIES))
    services = drawn_services(variation, random)
    free = [0.0] * workers
    spent = np.empty(QUERIES)
    for at, (arrival, service) in enumerate(zip(arrivals, services, strict=True)):
        begins = max(arrival, heapq.heappop(free))
        heapq.heappush(free, begins + service)
        spent[at] = begins + service - arrival
    return float(np.percentile(spent[QUERIES // 10 :], 99))


@pytest.mark.parametrize("variation", [0.3, 1.0, 2.0])
@pytest.mark.parametrize("workers", [1, 4, 16])
@pytest.mark.parametrize("load", [0.3, 0.6, 0.8])
def test_the_law_is_near_a_queue_that_is_played_through(
    load: float, workers: int, variation: float
):
    share = QueueShare(load * 1000.0, 1000.0, float(workers))
    told = Queue(variation).latency_seconds([share], 99) * 1000 / workers
    assert told == pytest.approx(played(load, workers, variation), rel=0.12)


def test_one_worker_and_exponential_service_is_the_law_of_the_textbooks():
    general = Queue(1.0)
    for load in (10.0, 500.0, 990.0):
        share = QueueShare(load, 1000.0, 1.0)
        exact = min(GIVE_UP_SECONDS, log(100) / (1000.0 - load))
        assert general.latency_seconds([share], 99) == pytest.approx(exact, rel=1e-5)
        assert ONE_AT_A_TIME.latency_seconds([share], 99) == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize("queue", [Queue(0.2), Queue(1.0), Queue(3.0), ONE_AT_A_TIME])
def test_what_is_held_is_the_load_at_which_the_bound_is_met(queue: Queue):
    bound = LatencyBound(99, 0.05)
    held = queue.held_per_second(1000.0, 4.0, bound)
    assert 0 < held < 1000
    met = queue.latency_seconds([QueueShare(held, 1000.0, 4.0)], 99)
    assert met == pytest.approx(bound.below_seconds, rel=1e-4)


def test_nothing_is_held_that_takes_longer_than_its_bound_alone():
    assert Queue(1.0).held_per_second(10.0, 1.0, LatencyBound(99, 0.01)) == 0.0
    assert Queue(1.0).held_per_second(0.0, 1.0, LatencyBound(99, 1.0)) == 0.0


def test_latency_grows_with_load_and_ends_where_clients_give_up():
    queue = Queue(1.4)
    loads = [0.0, 100.0, 500.0, 900.0, 999.0]
    told = [queue.latency_seconds([QueueShare(load, 1000.0, 8.0)], 99) for load in loads]
    assert told == sorted(told)
    assert queue.latency_seconds([QueueShare(1001.0, 1000.0, 8.0)], 99) == GIVE_UP_SECONDS


def test_a_slow_server_shows_in_the_percentile_of_both():
    queue = Queue(1.0)
    quick, slow = QueueShare(100.0, 1000.0, 1.0), QueueShare(100.0, 200.0, 1.0)
    both = queue.latency_seconds([quick, slow], 99)
    alone = [queue.latency_seconds([share], 99) for share in (quick, slow)]
    assert alone[0] < both < alone[1]
    assert queue.latency_seconds([quick, quick], 99) == pytest.approx(alone[0])


def test_more_varied_queries_wait_longer():
    tails = [beyond(0.8, 4.0, variation, 10.0) for variation in (0.1, 0.5, 1.0, 2.0, 4.0)]
    assert tails == sorted(tails)
