"""Bundles: an engine, the plugin libraries that it needs, and a manifest."""
