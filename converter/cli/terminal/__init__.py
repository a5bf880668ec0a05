"""Holds what is for terminals only: a line that is written anew, and colours."""
