"""This machine as a cluster: servers are sets of its CPUs with a share of its memory."""
