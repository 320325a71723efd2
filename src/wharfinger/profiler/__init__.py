"""``wharfinger profile`` and ``pair``: the interference profile of any program, without a manager.

Source: iBench (dissertation chapter 5). ``session`` is a port of the interpreter of profiling plans
for a command that this process runs, or for a process that runs already; ``rounds`` repeats plans
until each source's answer is sure; ``curves``, ``comparison`` are pure, as ``ibench.pairing``.
"""
