"""Serves all other packages: errors, progress, text, files, option values and processes. Nothing here is about models."""
