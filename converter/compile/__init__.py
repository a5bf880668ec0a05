"""Compiles plugin libraries of users' operators: finds nvcc and TensorRT's headers, runs CMake, explains failures.

nvcc, headers, host_compiler and logged import the standard library alone: set-up runs them before anything is installed.
"""
