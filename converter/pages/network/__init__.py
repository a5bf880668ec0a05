"""Draws the original model: its nodes, their routes, and their positions."""
