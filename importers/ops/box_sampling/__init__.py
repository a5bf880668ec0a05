"""Samples feature maps along the borders of boxes, or at each pixel's own box."""
