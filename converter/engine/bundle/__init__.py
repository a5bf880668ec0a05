"""Bundles an engine with the plugin libraries that it needs, and a manifest."""
