"""Fourier transforms and what belongs to them."""
