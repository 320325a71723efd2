"""How workloads on one server slow each other."""
