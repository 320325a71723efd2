"""Known programs: what they are, how they are measured, and the results, in files.

``listing`` names them (``programs.yaml``), ``inputs`` makes what they work on, ``campaign``
measures them by any profiler, ``known`` holds the results, ``known_files`` reads and writes them;
``measured/`` is shipped. ``programs`` are runnable modules of our own, which stand by themselves.
"""
