"""Frozen values in the field's words: what the core, policies, engines and clients speak of.

Nothing here acts. Units are in the names; missing is ``None``, never zero.
"""
