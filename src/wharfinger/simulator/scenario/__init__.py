"""Scenarios: who arrives when, on which servers, and what fails; read from files."""
