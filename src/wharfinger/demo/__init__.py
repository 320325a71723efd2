"""``wharfinger demo``: real programs with targets on this machine, twice.

``run.Demo`` is the order of things: each program is measured alone (``solo``), targets follow
(``workloads``, ``reservations``), all run under a policy and then under the baseline (``cluster``
starts the managers, ``timeline`` samples them), and the result is judged (``verdict``) and drawn
(``picture``). Called by ``cli/demo.py``, which prints progress and result.
"""
