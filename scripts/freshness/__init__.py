"""Says of each record in benchmarks/ which sources its figures depend on, and whether these have changed since."""
