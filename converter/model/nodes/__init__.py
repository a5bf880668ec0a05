"""Checks nodes, their subgraphs and the functions that they call, before other code reads them."""
