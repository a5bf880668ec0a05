"""Networks that others made, from public packages: which ones, how they are brought here, and what is tried with each."""
