"""Bits: shifts, masks, casts between narrow types."""
