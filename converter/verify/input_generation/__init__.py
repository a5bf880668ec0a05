"""Generates inputs that fit the nodes that read them."""
