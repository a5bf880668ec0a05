"""Writes the results of a batch: results.json, junit.xml, index.html, and comparisons of two batches."""
