"""The manager's API over HTTP: what ``wharfinger up`` serves and every client speaks to.

``server.py`` runs uvicorn and the runtime in one asyncio loop, in one thread; ``app.py``
puts the routes together; ``records.py`` and ``history.py`` turn the core's values into the
answers of ``models.py``. Importing this package imports none of them.
"""
