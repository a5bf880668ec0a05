"""Runs modules in child processes, and turns crashes there into error messages."""
