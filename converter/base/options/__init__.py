"""Declares options, and parses their values from the command line or from Python."""
