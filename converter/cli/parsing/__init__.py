"""Reads the command line: the parser, what it says of mistakes, and what it knows of other tools."""
