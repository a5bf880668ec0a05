"""The parts of scripts/compare_checkouts.py."""
