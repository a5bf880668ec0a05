"""Stage: verifies numbers: inputs, tolerances, comparisons and the verdict on them."""
