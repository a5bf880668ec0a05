"""Tells what 8 bits cost a network: measured on the graphs, and reported beside the verdict."""
