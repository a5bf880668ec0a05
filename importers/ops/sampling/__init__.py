"""Holds the operators that read feature maps around places which a grid, a network or a displacement gives."""
