"""Holds the parts of scripts/compare_checkouts.py."""
