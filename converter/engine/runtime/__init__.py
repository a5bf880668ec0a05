"""Runs engines: in this process (runner.py builds on it), and in a child process that no crash gets out of."""
