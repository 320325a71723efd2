"""What the core asks of its plug-ins and what they may answer: protocols and verdicts only.

Each part of a *policy* reads frozen values and answers with a value; the core logs the answer and
carries it out. ``CONTRIBUTING.md`` says how to add one.
"""
