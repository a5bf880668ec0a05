"""The parts of scripts/bench_memory.py."""
