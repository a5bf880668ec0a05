"""Measures parts of `trtsmith batch`."""
