"""``wharfinger demo``: real programs with targets on this machine, twice.

``play.play`` is its story: each program is measured alone (``solo``), targets follow from that
(``plan``), the set runs under the policy that is shown and then under the baseline (``cluster``,
``course``), and what came of it is judged (``verdict``), told (``report``) and drawn
(``picture``). ``screen`` shows progress. Called by ``cli/demo.py`` only.
"""
