"""Reductions, statistics and running products."""
