"""Writes down what came of a batch, for people and for programs: results.json, junit.xml, index.html, and differences."""
