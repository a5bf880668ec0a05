"""Runs engines: in this process (runner.py), or in a child process that contains crashes."""
