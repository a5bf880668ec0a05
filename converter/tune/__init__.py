"""Searches the fastest engine that is still right, by measurement: `trtsmith tune`."""
