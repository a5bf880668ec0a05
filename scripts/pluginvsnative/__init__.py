"""Holds the parts of scripts/plugin_vs_native.py."""
