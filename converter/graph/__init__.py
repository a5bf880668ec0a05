"""Graphs of a model: scopes, producers, consumers, constants, types and fresh names."""
