"""Tries networks by other people, from public packages: their list, their download, and the trials of each."""
