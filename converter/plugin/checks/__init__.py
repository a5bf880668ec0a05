"""The checks of `trtsmith plugin test`."""
