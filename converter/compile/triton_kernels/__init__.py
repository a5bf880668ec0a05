"""Operators whose kernels are written in Triton: compiled ahead of time, and bound to a plugin without a line of C++."""
