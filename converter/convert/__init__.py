"""Converts a model in stages: load, rewrite, plan, build, verify, bundle."""
