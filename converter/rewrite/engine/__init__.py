"""Defines rules, and applies them to a graph."""
