"""The simulated cluster: servers, runs, profiling runs, measurements and accounts."""
