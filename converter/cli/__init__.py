"""Defines the command `trtsmith`: its arguments, output and exit codes."""
