"""Real programs to manage: services, a load generator for them, batch jobs.

Each is run as ``python -m wharfinger.programs.NAME`` and stands by itself: it imports nothing
else of wharfinger, most need the standard library alone, all start fast and stay
small. The demo and the tests run them. ``catalogue`` names other programs: those that are
measured as known; they stand in ``entries``, their inputs in ``inputs``, kernels of libraries in
``kernels``.
"""
