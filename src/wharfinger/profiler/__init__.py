"""Measures programs on this machine without a manager: the known programs' matrices."""
