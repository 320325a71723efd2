"""Random numbers by purpose: draws for one purpose do not change those for another.

The policy under test never draws, so two policies see the same arrivals, faults and noise. A
*stream* (``of``) is a sequence, for draws in a fixed order. A draw *by name* (``uniform``,
``normal``, ``lognormal``) depends on its name only, for draws whose order depends on decisions.
"""

from hashlib import blake2b, sha256
from math import exp
from statistics import NormalDist
from struct import Struct

import numpy as np
from msgspec.msgpack import Encoder

_encode = Encoder().encode
_first_word = Struct("<Q").unpack
_normal_quantile = NormalDist().inv_cdf


class Streams:
    """All randomness of one run, the same for the same seed, whatever the order of purposes.

    Streams are NumPy's Philox generators (Salmon et al., Parallel random numbers: as easy as 1, 2,
    3, SC 2011), keyed by SHA-256 of seed and purpose; draws by name are BLAKE2b of the name, keyed
    likewise. A later NumPy may change distributions of streams, but no draws by name.

    Example:
        >>> streams = Streams(7)
        >>> first = streams.normal("noise", "cache", 1)
        >>> _ = streams.of("arrivals").exponential(), streams.normal("noise", "cache", 2)
        >>> streams.normal("noise", "cache", 1) == first
        True
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._generators: dict[str, np.random.Generator] = {}
        self._hashes: dict[str, blake2b] = {}

    def of(self, purpose: str) -> np.random.Generator:
        """The stream of a purpose, which continues from call to call."""
        generator = self._generators.get(purpose)
        if generator is None:
            key = int.from_bytes(self._key("stream", purpose)[:16], "little")
            generator = np.random.Generator(np.random.Philox(key=key))
            self._generators[purpose] = generator
        return generator

    def uniform(self, purpose: str, *name: str | int) -> float:
        """A draw in the open interval from 0 to 1; ``1`` and ``"1"`` are two names."""
        keyed = self._hashes.get(purpose)
        if keyed is None:
            key = self._key("name", purpose)
            keyed = self._hashes[purpose] = blake2b(digest_size=8, salt=key[:16], person=key[16:])
        hashed = keyed.copy()
        hashed.update(_encode(name))
        # The middles of 2**52 equal intervals: each is a double, and none is 0 or 1.
        interval = _first_word(hashed.digest())[0] >> 12
        return (2 * interval + 1) * 2.0**-53  # type: ignore[no-any-return]  # of a Struct

    def normal(self, purpose: str, *name: str | int) -> float:
        """A draw with mean 0 and standard deviation 1."""
        return _normal_quantile(self.uniform(purpose, *name))

    def lognormal(self, purpose: str, *name: str | int, sigma: float) -> float:
        """A factor with median 1; ``sigma`` is the standard deviation of its logarithm."""
        return exp(sigma * self.normal(purpose, *name))

    def _key(self, kind: str, purpose: str) -> bytes:
        """32 bytes; no two texts are equal, as the seed is a number."""
        return sha256(f"{kind}:{self.seed}:{purpose}".encode()).digest()
