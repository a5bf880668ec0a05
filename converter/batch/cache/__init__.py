"""Keeps what conversions gave, addressed by the content of all that they depend on."""
