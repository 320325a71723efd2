"""Reservation: least-loaded assignment of what each user has reserved (Quasar 1 and 5).

What users state is far from what their workloads need: 70% of them reserve up to ten times too
much, 20% up to five times too little (Quasar 1, Figure 1d). This is the baseline that pays for it.
The policy itself only takes the reservation at its word: live that is the manifest's, in a
simulation what the population's users would have stated (``Job.stated``). There ``least-loaded`` is
given what a workload really needs, so that beside it this one shows what the errors cost.
"""

from wharfinger.policies.placement.least_loaded import LeastLoaded


class ReservationPlacement(LeastLoaded):
    """Places as least-loaded does; a name of its own says whose reservations it is given."""

    name = "reservation"
