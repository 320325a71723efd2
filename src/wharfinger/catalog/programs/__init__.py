"""Real programs to manage: services, a load generator for them, batch jobs.

Each is run as ``python -m wharfinger.catalog.programs.NAME`` and stands by itself: it imports
nothing else of wharfinger, most need the standard library alone, all start fast and stay small.
"""
