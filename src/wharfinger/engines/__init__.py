"""Engines turn actions into effects and effects into events. They never import each other."""
