"""Loads, checks, runs and saves models, and reads their weights."""
