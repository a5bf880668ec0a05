"""Packs what scripts/gpu_bundle.py bundles, cuts it into chunks, and puts it together again."""
