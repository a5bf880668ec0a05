"""Holds one module for each command: add_parser() for its arguments, run() for its work."""
