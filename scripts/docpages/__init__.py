"""Generates the parts of the documents that follow from the code's own data and from benchmark records."""
