"""The parts of scripts/plugin_vs_native.py."""
