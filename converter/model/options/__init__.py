"""Reads what options say, whether they come from the command line or from Python."""
