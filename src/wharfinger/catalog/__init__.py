"""Known programs: what they are, how they are measured, and what came of it, in files.

``listing`` names them (``entries``, ``inputs``), ``campaign`` measures them by any profiler,
``known`` holds what was measured, ``known_files`` reads and writes it; ``measured/`` is shipped.
``programs`` are runnable modules of our own, which stand by themselves.
"""
