"""Known programs: what they are, how they are measured, and the results, in files.

``campaign`` measures those that ``listing`` names (``programs.yaml``), on what ``inputs`` makes;
``known_files`` reads and writes the results. ``programs`` are runnable modules of our own.
"""
