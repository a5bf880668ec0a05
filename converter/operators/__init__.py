"""Loads operators from outside: finds the modules, imports them, and holds their definitions to what ours are held to."""
