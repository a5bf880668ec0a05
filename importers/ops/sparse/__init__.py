"""Computes sparse convolution, along rulebooks that say which cell reaches which."""
