"""What scripts/gpu_bundle.py packs, how it is cut into chunks, and how it is put together again."""
