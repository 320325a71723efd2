"""wharfinger: a cluster manager that is told performance targets, not reservations.

Importing the package imports nothing else: the command line starts within a few
milliseconds of a bare Python, and each command imports what it needs.
"""

__version__ = "0.1.0"
