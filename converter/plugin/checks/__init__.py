"""Holds the checks of `trtsmith plugin test`."""
