"""Networks that benchmarks write."""
