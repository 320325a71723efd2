"""The physics as the cluster asks it: rates, CPUs kept busy, memory, services and sources."""

from dataclasses import replace

import pytest

from wharfinger.errors import InvalidInput
from wharfinger.model.interference import SharedResource
from wharfinger.simulator.truth.ground_truth import TrueResident
from wharfinger.simulator.truth.physics.application import (
    Application,
    Mix,
    Serving,
    Streaming,
    WorkingSet,
)
from wharfinger.simulator.truth.physics.clusters import EC2, HARDWARE, LOCAL
from wharfinger.simulator.truth.physics.hardware import GIB, MIB
from wharfinger.simulator.truth.physics.named import NAMED
from wharfinger.simulator.truth.physics.solver import Constants
from wharfinger.simulator.truth.physics.truth import Physics, rereads

X5670, ATOM, CR1 = "xeon-x5670", "atom-330", "cr1.8xlarge"
QUIET = Constants(whim=0.0)
READER = Application(
    "reader", disk=Streaming(0.05, 0.2), sets=(WorkingSet(0.001, MIB),), footprint_bytes=GIB
)
SERVICE = Application(
    "service", threads=4, serving=Serving(1e6, 0.5), sets=(WorkingSet(0.004, 2 * MIB),)
)
FRAMEWORK = Application(
    "framework",
    threads=4,
    data_bytes=40.0 * GIB,
    reread=0.2,
    footprint_bytes=GIB,
    spread=0.02,
)
TRUTH = Physics([*LOCAL, *EC2], [*NAMED.values(), READER, SERVICE, FRAMEWORK], QUIET)


def one(name: str, cpus: float = 1.0, **other: object) -> TrueResident:
    memory = TRUTH.applications[name].footprint_bytes
    return TrueResident(name, 1000 * cpus, memory, **other)  # type: ignore[arg-type]


def test_a_faster_processor_is_faster():
    rates = {name: TRUTH.most(name, "hmmer") for name in (X5670, "xeon-e5335", ATOM)}
    assert rates[X5670] > rates["xeon-e5335"] > rates[ATOM] > 0


def test_alone_is_a_group_of_one():
    resident = one("mcf")
    assert TRUTH.alone(X5670, resident) == TRUTH.rates(X5670, [resident])[0]


def test_more_cpus_than_threads_are_no_use():
    assert TRUTH.alone(X5670, one("mcf", 4.0)) == TRUTH.alone(X5670, one("mcf"))
    assert TRUTH.alone(X5670, one("mcf", 0.5)) < TRUTH.alone(X5670, one("mcf"))


def test_nothing_is_done_without_a_cpu():
    assert TRUTH.rates(X5670, [one("mcf", 0.0), one("lbm")])[0] == 0.0


def test_who_does_not_fit_never_runs():
    small = "m1.small"
    huge = replace(NAMED["mcf"], name="huge", footprint_bytes=3 * GIB)
    truth = Physics(EC2, [huge, NAMED["mcf"]], QUIET)
    assert truth.most(small, "huge") == 0.0
    assert not truth.fits(small, [TrueResident("huge", 1000, 3 * GIB)])
    assert truth.fits(small, [TrueResident("mcf", 1000, NAMED["mcf"].footprint_bytes)])


def test_memory_that_is_short_slows_all_who_are_there():
    server = HARDWARE["opteron-240"]
    crowd = [TrueResident("mcf", 1000, round(0.549 * server.memory_bytes)) for _ in range(2)]
    alone = [TrueResident("mcf", 1000, round(0.40 * server.memory_bytes)) for _ in range(2)]
    assert TRUTH.fits(server.name, crowd)
    paged, held = TRUTH.rates(server.name, crowd)[0], TRUTH.rates(server.name, alone)[0]
    assert paged < 0.9 * held


def test_who_waits_for_a_disk_keeps_no_cpu_busy():
    residents = [one("reader"), one("povray")]
    rates = TRUTH.rates(X5670, residents)
    reads, computes = TRUTH.used_millicpus(X5670, residents, rates)
    assert reads < 900
    assert computes == pytest.approx(1000)


def test_two_who_read_share_the_disk():
    alone = TRUTH.alone(X5670, one("reader"))
    both = TRUTH.rates(X5670, [one("reader")] * 2)
    assert both[0] == pytest.approx(both[1])
    assert 0.4 * alone < both[0] < 0.95 * alone


def test_a_service_presses_by_its_load():
    def beside(load: float) -> float:
        return TRUTH.rates("xeon-e5345", [one("mcf"), one("service", 3.0, load_per_second=load)])[0]

    could = TRUTH.alone("xeon-e5345", one("service", 3.0, load_per_second=0.0))
    assert beside(0.0) > beside(0.5 * could) > beside(0.9 * could)
    assert beside(2 * could) == pytest.approx(beside(5 * could))


def test_a_services_load_keeps_its_cpus_busy():
    resident = one("service", 4.0, load_per_second=100.0)
    rates = TRUTH.rates(X5670, [resident])
    busy = TRUTH.used_millicpus(X5670, [resident], rates)[0]
    assert busy == pytest.approx(4000 * 100.0 / rates[0], rel=0.05)
    assert TRUTH.queue("service").variation == 0.5


def test_data_that_several_servers_hold_is_read_once():
    assert rereads(FRAMEWORK, 11 * GIB, 1) == pytest.approx(0.2 * 0.75)
    assert rereads(FRAMEWORK, 11 * GIB, 4) == 0.0
    memory = 11 * GIB
    on_one, on_four = (
        servers * TRUTH.alone(X5670, TrueResident("framework", 4000, memory, None, servers))
        for servers in (1, 4)
    )
    assert on_four > 4 * on_one


def test_siblings_cost_only_where_there_are_any():
    crowd = [one("povray") for _ in range(24)]
    siblings = TRUTH.rates(CR1, crowd)[0] / TRUTH.alone(CR1, one("povray"))
    assert 0.6 < siblings < 0.95
    whole = Physics(EC2, NAMED.values(), Constants(smt=False, whim=0.0))
    assert whole.rates(CR1, crowd)[0] == pytest.approx(whole.alone(CR1, one("povray")), rel=5e-3)


@pytest.mark.parametrize("resource", [SharedResource.INTEGER, SharedResource.L1_DATA_CACHE])
def test_a_core_without_siblings_gives_no_signal(resource: SharedResource):
    assert TRUTH.source(X5670, resource, 50.0, one("mcf")) is None
    source = TRUTH.source(CR1, resource, 50.0, one("mcf"))
    assert source is not None
    assert source.core_of == "mcf"


def test_a_core_source_presses_on_the_newest_before_it_alone():
    source = TRUTH.source(CR1, SharedResource.INTEGER, 100.0, one("hmmer"))
    assert source is not None
    first, second, other, _ = TRUTH.rates(CR1, [one("hmmer"), one("hmmer"), one("povray"), source])
    assert second < 0.9 * first
    assert first == pytest.approx(TRUTH.alone(CR1, one("hmmer")), rel=1e-3)
    assert other == pytest.approx(TRUTH.alone(CR1, one("povray")), rel=1e-3)


def test_each_source_presses_on_what_it_is_named_for():
    mcf, reader = one("mcf"), one("reader")
    base = {each.application: TRUTH.alone(X5670, each) for each in (mcf, reader)}

    def left(resident: TrueResident, resource: SharedResource) -> float:
        source = TRUTH.source(X5670, resource, 100.0, resident)
        assert source is not None
        return TRUTH.rates(X5670, [resident, source])[0] / base[resident.application]

    assert left(mcf, SharedResource.MEMORY_BANDWIDTH) < 0.8
    assert left(mcf, SharedResource.LAST_LEVEL_CACHE) < 0.9
    assert left(mcf, SharedResource.NETWORK_BANDWIDTH) > 0.999
    assert left(mcf, SharedResource.STORAGE_BANDWIDTH) > 0.999
    assert left(reader, SharedResource.STORAGE_BANDWIDTH) < 0.5
    assert left(reader, SharedResource.NETWORK_BANDWIDTH) > 0.999


def test_an_application_that_is_not_known_is_refused():
    with pytest.raises(InvalidInput, match="'doom' is not in this population"):
        TRUTH.most(X5670, "doom")


def test_shares_of_a_mix_are_shares():
    with pytest.raises(InvalidInput, match="instruction mix"):
        Mix(0.8, 0.4)
    with pytest.raises(InvalidInput, match="a service"):
        Serving(0.0)


def test_a_core_source_has_the_threads_of_who_is_beside_it_whoever_asked_before():
    eight = one("blackscholes", 8.0)

    def left() -> float:
        source = TRUTH.source(CR1, SharedResource.FLOATING_POINT, 100.0, eight)
        assert source is not None
        return TRUTH.rates(CR1, [eight, source])[0]

    first = left()
    TRUTH.source(CR1, SharedResource.FLOATING_POINT, 100.0, one("hmmer"))
    assert left() == first < 0.9 * TRUTH.alone(CR1, eight)


def test_two_core_sources_press_on_one_another():
    beside = one("hmmer")
    first = TRUTH.source(CR1, SharedResource.INTEGER, 50.0, beside)
    assert first is not None
    plain = replace(first, core_of="")
    rates = []
    for intensity in (40.0, 50.0, 60.0):
        second = TRUTH.source(CR1, SharedResource.INTEGER, intensity, plain)
        assert second is not None
        rates.append(TRUTH.rates(CR1, [plain, second])[0])
    assert rates[0] > rates[1] > rates[2]


def test_a_stranger_of_the_same_program_does_not_take_a_source_away():
    beside = one("hmmer")
    source = TRUTH.source(CR1, SharedResource.INTEGER, 100.0, beside)
    assert source is not None
    before = TRUTH.rates(CR1, [beside, source])[0]
    assert TRUTH.rates(CR1, [beside, source, beside])[0] == pytest.approx(before, rel=1e-3)
