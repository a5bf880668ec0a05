"""Samples maps along the borders of boxes, or at boxes that their pixels have."""
