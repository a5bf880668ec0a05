"""Holds the operators that sample feature maps at positions that a network predicts, and what they share."""
