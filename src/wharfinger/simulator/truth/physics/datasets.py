"""How a framework's job depends on its data set and on how many tasks it runs at once.

Quasar's Table 1 has three data sets, and says that they make a factor of 3. Four things follow from
size alone:

- Data that are used again and again grow with the square root of the whole: distinct words of a
  text (Heaps' law; exponents of 0.4 to 0.6), rows of one side of a matrix of ratings.
- Data that are looked up once grow with the whole: no cache keeps more of a larger working set.
- A sort whose output exceeds its buffers is merged in passes, each of which writes and reads all of
  it again: one pass more for each factor of ten (Hadoop's ``io.sort.factor``).
- Data that the servers' memory can hold are read once, the rest in every round.
"""

from dataclasses import dataclass, replace
from math import log10

from wharfinger.simulator.truth.physics.application import Application, Streaming
from wharfinger.simulator.truth.physics.hardware import GIB

REFERENCE_BYTES = 10.0 * GIB  # size of the data set on which a job is as drawn
_HEAPS = 0.5  # exponent of the distinct in the size of the whole
_BUFFERS_BYTES = 1.0 * GIB  # that a job's mappers sort in memory


@dataclass(frozen=True, slots=True)
class DataSet:
    """Input of a job."""

    name: str
    size_bytes: float


NETFLIX = DataSet("netflix", 2.1 * GIB)
DATA_SETS = (NETFLIX, DataSet("mahout", 10.0 * GIB), DataSet("wikipedia", 55.0 * GIB))
"""Quasar's Table 1, A to C."""


def on_data(job: Application, data: DataSet) -> Application:
    """The same job on other data; the original is on ``REFERENCE_BYTES``."""
    ratio = data.size_bytes / REFERENCE_BYTES
    passes = merge_passes(data.size_bytes) / merge_passes(REFERENCE_BYTES)
    first, *rest = job.sets
    growth = ratio**_HEAPS
    # What is kept becomes a smaller part of what is looked up.
    floor = first.floor + (1 - first.floor) * (1 - 1 / max(1.0, growth))
    disk = job.disk
    return replace(
        job,
        sets=(replace(first, size_bytes=first.size_bytes * growth, floor=floor), *rest),
        disk=Streaming(disk.bytes_per_instruction * passes, disk.own_bandwidth, disk.depth),
        data_bytes=data.size_bytes,
    )


def merge_passes(size_bytes: float) -> float:
    """How often all of the data go to disk and back: once, and again for each factor of ten.

    >>> round(merge_passes(100 * GIB), 2)
    3.0
    """
    return 1 + max(0.0, log10(size_bytes / _BUFFERS_BYTES))


def with_mappers(job: Application, mappers: int) -> Application:
    """The same job with so many tasks at once on a server, each with a heap."""
    heap = job.footprint_bytes / job.threads
    return replace(
        job, name=f"{job.name}x{mappers}", threads=mappers, footprint_bytes=int(heap * mappers)
    )
