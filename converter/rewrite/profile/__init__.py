"""Evaluates a graph for its optimization profile: sizes, ranks, conditions, trip counts.

An engine holds for its profile only, so a range of every input's size is knowledge. It is propagated through the graph as
polynomials of sizes (`size_algebra`), by what operators do to shapes and to the small integers that shapes are computed
with (`range_analysis`); what has one value in all of the profile is written as a constant (`decisions`). What depends on
data is never decided.
"""
