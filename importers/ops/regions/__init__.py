"""Holds the operators that pool regions of feature maps, and what they share."""
