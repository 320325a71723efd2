"""The simulation kernel: one loop of events and streams of random numbers; knows no clusters."""
