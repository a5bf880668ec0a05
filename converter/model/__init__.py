"""Loads, checks and saves models, and reads their weights and the shapes of their inputs."""
