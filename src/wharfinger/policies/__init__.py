"""Policies: one file per idea, in a folder per seam; ``registry`` names the bundles."""
