"""Represents a model's graphs during editing: scopes, producers, consumers, constants, types and fresh names."""
