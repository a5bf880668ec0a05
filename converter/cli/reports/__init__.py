"""Prints results as text: tables and sentences for a terminal."""
