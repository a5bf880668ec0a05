"""Writes packages of operators for users to fill in: `trtsmith op new`."""
