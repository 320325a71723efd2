"""How a framework's job depends on its data set and on how many tasks it runs at once.

Quasar's Table 1 has three data sets, and says that they make a factor of 3. Four things follow from
size alone:

- What is used again and again grows with the square root of the data: distinct words of a text
  (Heaps' law; exponents of 0.4 to 0.6), rows of one side of a matrix of ratings.
- What is looked up once grows with it: a larger working set has more that no cache keeps.
- A sort whose output exceeds its buffers is merged in passes, each of which writes and reads all of
  it again: one pass more for each factor of ten (Hadoop's ``io.sort.factor``).
- What the servers' memory can hold of it is read once, the rest in every round.

``pools`` draws jobs by it, ``quasar_figure2`` puts one job on three data sets.
"""

from dataclasses import dataclass, replace
from math import log10

from wharfinger.simulator.truth.physics.application import Application, Streaming, WorkingSet
from wharfinger.simulator.truth.physics.hardware import GIB

REFERENCE_BYTES = 10.0 * GIB
"""Of data: a drawn job is as drawn with so much."""
HEAPS = 0.5
"""Exponent of the distinct in the size of the whole."""
_BUFFERS_BYTES = 1.0 * GIB
"""That a job's mappers sort in memory."""


@dataclass(frozen=True, slots=True)
class DataSet:
    """What a job works on.

    Attributes:
        name: Of it.
        size_bytes: Of its input.
    """

    name: str
    size_bytes: float


NETFLIX = DataSet("netflix", 2.1 * GIB)
MAHOUT = DataSet("mahout", 10.0 * GIB)
WIKIPEDIA = DataSet("wikipedia", 55.0 * GIB)
DATA_SETS = (NETFLIX, MAHOUT, WIKIPEDIA)
"""Quasar's Table 1, A to C."""


def on_data(job: Application, data: DataSet) -> Application:
    """The job on that data; as given it is one on ``REFERENCE_BYTES``."""
    ratio = data.size_bytes / REFERENCE_BYTES
    passes = merge_passes(data.size_bytes) / merge_passes(REFERENCE_BYTES)
    first, *rest = job.sets
    disk = job.disk
    return replace(
        job,
        sets=(_grown(first, ratio), *rest),
        disk=Streaming(disk.bytes_per_instruction * passes, disk.own_bandwidth, disk.depth),
        data_bytes=data.size_bytes,
    )


def merge_passes(size_bytes: float) -> float:
    """How often all of it goes to disk and back: reading it, and one pass for each factor of ten.

    >>> round(merge_passes(100 * GIB), 2)
    3.0
    """
    return 1 + max(0.0, log10(size_bytes / _BUFFERS_BYTES))


def _grown(used: WorkingSet, ratio: float) -> WorkingSet:
    growth = ratio**HEAPS
    return replace(
        used,
        size_bytes=used.size_bytes * growth,
        # What is kept becomes a smaller part of what is looked up.
        floor=used.floor + (1 - used.floor) * (1 - 1 / max(1.0, growth)),
    )


def with_mappers(job: Application, mappers: int) -> Application:
    """The job with that many tasks at once on a server: a heap for each."""
    heap = job.footprint_bytes / job.threads
    return replace(
        job,
        name=f"{job.name}x{mappers}",
        threads=mappers,
        footprint_bytes=int(heap * mappers),
    )
