"""Generates inputs of a model that suit what its nodes do with them."""
