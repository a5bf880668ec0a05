"""Packs the bundles of scripts/gpu_bundle.py, cuts them into chunks, and restores them."""
