"""Pooling, and what looks at windows as pooling does."""
