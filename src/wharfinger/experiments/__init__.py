"""Comparisons of simulated runs, and the papers' tables and figures beside what is measured."""
