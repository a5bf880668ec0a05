"""Operators that select elements: NonZero, Unique, Compress, TopK, NonMaxSuppression."""
