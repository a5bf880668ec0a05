"""Holds terminal output: a progress line that is redrawn, and colours."""
