"""How a framework's job depends on its data set."""

from dataclasses import replace

import pytest

from wharfinger.simulator.truth.physics.application import Application, Streaming, WorkingSet
from wharfinger.simulator.truth.physics.datasets import (
    DATA_SETS,
    REFERENCE_BYTES,
    DataSet,
    on_data,
    with_mappers,
)
from wharfinger.simulator.truth.physics.hardware import GIB, MIB

JOB = Application(
    "job",
    threads=4,
    footprint_bytes=2 * GIB,
    sets=(WorkingSet(0.01, 4 * MIB, floor=0.2), WorkingSet(0.003, 96 * 1024)),
    disk=Streaming(0.1, 0.3),
)


def test_as_it_was_drawn_on_the_reference():
    same = on_data(JOB, DataSet("reference", REFERENCE_BYTES))
    assert same == replace(JOB, data_bytes=REFERENCE_BYTES)


def test_more_data_miss_more_and_are_merged_more_often():
    found = [on_data(JOB, data) for data in DATA_SETS]
    misses = [job.misses(8 * MIB) for job in found]
    reads = [job.disk.bytes_per_instruction for job in found]
    assert misses == sorted(misses)
    assert reads == sorted(reads)
    assert reads[-1] < 2.5 * reads[0]  # Though there are 26 times as many.
    assert found[0].footprint_bytes == found[-1].footprint_bytes  # A parameter of the framework.


def test_a_heap_for_each_task():
    eight = with_mappers(JOB, 8)
    assert (eight.threads, eight.footprint_bytes) == (8, 4 * GIB)
    assert with_mappers(JOB, 1).footprint_bytes == pytest.approx(GIB / 2)
