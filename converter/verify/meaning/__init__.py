"""Compares results of selections by their meaning: detections, rows, rankings, classes and sets of positions."""
