"""The manager's API over HTTP: what ``wharfinger up`` serves and every client speaks to.

``server.py`` runs uvicorn and the runtime in one asyncio loop; the modules ``routes_…`` are the
calls; ``cluster``, ``workloads``, ``classification``, ``performance``, ``explanations``, ``notes``,
``changes``, ``runs`` and ``history`` define the answers and fill them from the core's values;
``reference`` describes the API. Importing this package imports none of them.
"""
