"""Operators that take samples of a map along the borders of boxes, or at boxes that its pixels have."""
