"""Frozen values that the core, policies, engines and clients share.

Units are in the names; missing is ``None``, never zero.
"""
