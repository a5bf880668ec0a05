"""Operators that reduce the rows of segments to one row each, as point clouds and graphs need them."""
