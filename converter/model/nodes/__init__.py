"""Checks nodes, the bodies that they have and the functions that they call, before anything reads them."""
