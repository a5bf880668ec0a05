"""Pools regions of feature maps into bins, as RoI align and its relatives do."""
