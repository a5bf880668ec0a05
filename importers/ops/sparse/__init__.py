"""Defines sparse convolution: rulebooks, which say what reaches what, and the convolution along them."""
