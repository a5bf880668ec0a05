"""Parses option values, from the command line or from Python."""
