"""Operators that sort the rows of segments, and reduce them to one row each, as point clouds and graphs need them."""
