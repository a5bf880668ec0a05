"""Compiles operators' Triton kernels ahead of time, and binds them to plugins without a line of C++."""
