"""Real programs to manage: services, a load generator for them, batch jobs.

Each is run as ``python -m wharfinger.programs.NAME`` and stands by itself: nothing here imports
anything else of wharfinger, most need the standard library alone, all start fast and stay
small. The demo, the catalogue of known programs and the tests run them.
"""
