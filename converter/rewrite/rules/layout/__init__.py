"""Operators that move elements between positions: blocks, channels and depth."""
