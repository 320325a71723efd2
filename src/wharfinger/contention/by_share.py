"""Contention by the CPU that residents hold, where no score of the newcomer is measured.

Predicted scores of interference tell a loss of more than 5% from a smaller one no better than the
CPU share of the residents does (decision 0059), and they led workloads to the fuller servers
(0123). So neighbors lower the logarithm of a newcomer's performance in proportion to the share of
the server's CPU that they hold.
"""

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from wharfinger.core.seams.contention import Assessment, LogEstimates
from wharfinger.model.view import View


class ShareAssessment(Assessment):
    """A newcomer beside residents whose CPU counts; what they lose to it is taken for nothing.

    Args:
        pressed: (S,) where there are classified residents.
        drop: That residents with all of a server's CPU take off the logarithm of its performance.
        spread: Standard deviation of that, as a share of it.
    """

    informed = True

    def __init__(self, view: View, pressed: NDArray[np.bool_], drop: float, spread: float) -> None:
        super().__init__(len(view.names))
        self._view, self._pressed, self._drop, self._spread = view, pressed, drop, spread

    @cached_property
    def suffered(self) -> LogEstimates:
        """In proportion to the CPU that is held."""
        view = self._view
        held = np.clip(view.cpu_allocated / np.maximum(view.cpu_capacity, 1), 0.0, 1.0)
        mean = np.where(self._pressed, self._drop * held, 0.0)
        return LogEstimates(mean, (self._spread * mean) ** 2)
