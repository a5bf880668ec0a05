"""Defines the command `trtsmith`: its arguments, what it prints, and how it ends."""
