"""Holds the steps of scripts/gpu_check.py. Each runs in a process of its own, so that a fault of a kernel ends only one."""
