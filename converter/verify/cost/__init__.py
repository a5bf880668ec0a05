"""Measures the cost of 8 bits on a network, and reports it beside the verdict."""
