"""Checks aarch64 libraries on x86_64: their contents, and their behaviour in emulation."""
