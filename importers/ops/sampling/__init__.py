"""Reads feature maps around places which a grid, a network or a displacement gives."""
