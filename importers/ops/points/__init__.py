"""Samples point clouds, and finds the neighbours of points."""
