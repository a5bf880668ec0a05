"""Holds the operators that select boxes (non-maximum suppression) and how other tools write them."""
