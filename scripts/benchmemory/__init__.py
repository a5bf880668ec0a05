"""Holds the parts of scripts/bench_memory.py."""
