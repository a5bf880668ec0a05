"""Selects the best of boxes (non-maximum suppression) and of elements."""
