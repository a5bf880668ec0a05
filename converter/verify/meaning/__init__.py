"""Compares what a selection makes as what it is: detections, rows, rankings, classes and sets of positions."""
