"""Loads operators from outside: finds and imports the modules, and checks their definitions."""
