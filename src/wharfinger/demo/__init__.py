"""``wharfinger demo``: real programs with targets on this machine, twice.

``run.run_demo`` is the order of things: each program is measured alone (``solo``), targets follow
(``workloads``), all run under a policy and then under the baseline (``cluster`` drives the
managers, ``timeline`` samples them), and the result is judged (``verdict``), told (``report``) and
drawn (``picture``). ``progress`` shows it meanwhile. Called by ``cli/demo.py`` only.
"""
