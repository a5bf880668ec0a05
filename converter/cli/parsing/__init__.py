"""Parses the command line, explains mistakes, and maps flags of other tools."""
