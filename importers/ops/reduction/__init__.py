"""Reduces the rows of segments to one row each, and sorts them."""
