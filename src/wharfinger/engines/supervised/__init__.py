"""For engines with programs on this host: each under a supervisor, launched, followed, measured.

``machine`` launches, ``run`` follows one start and ``records`` keeps what outlives the manager;
``watcher`` waits for all that can happen. ``measuring`` tells how workloads perform, wherever they
run; the load generators of services (``loads``) run on this host in any case.
"""
