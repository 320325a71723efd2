"""Joins one core, one engine, one clock and one store."""
