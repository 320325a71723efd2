"""The manager's API over HTTP: what ``wharfinger up`` serves and every client speaks to.

``server.py`` runs uvicorn and the runtime in one asyncio loop; ``routes_cluster`` and
``routes_workloads`` are the calls; ``cluster``, ``workloads``, ``classification``, ``performance``,
``explanations`` and ``history`` define the answers and fill them from the core's values. Importing
this package imports none of them.
"""
