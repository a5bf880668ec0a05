"""Samples feature maps around the places that a grid, a network or a displacement gives."""
