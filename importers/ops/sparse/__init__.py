"""Computes sparse convolution along rulebooks, which list the cells that reach each other."""
