"""Holds the steps of scripts/gpu_check.py. Each runs in its own process, so that a faulty kernel ends only one."""
