"""Stage: verifies results: inputs, tolerances, comparisons and the verdict."""
