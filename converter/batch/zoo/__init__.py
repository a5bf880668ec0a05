"""Reads zoo.toml, the models of a batch and their options, into tasks or into a list of all problems."""
