"""Scenarios: servers, workloads, arrivals and faults; read from files and drawn."""
