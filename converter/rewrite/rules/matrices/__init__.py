"""Matrices and vectors."""
