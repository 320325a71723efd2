"""Reservation: least-loaded assignment of what each user has reserved (Quasar 1 and 5).

70% of users reserve up to ten times what their workloads need, 20% up to five times too little
(Quasar 1, Figure 1d); this baseline pays for it. Live a reservation is the manifest's, in a
simulation what the population's users would have stated (``Job.stated``). There ``least-loaded`` is
given what a workload really needs, so the difference between the two is the cost of the errors.
"""

from wharfinger.policies.placement.least_loaded import LeastLoaded


class ReservationPlacement(LeastLoaded):
    """Places as least-loaded does; a name of its own says whose reservations it is given."""

    name = "reservation"
