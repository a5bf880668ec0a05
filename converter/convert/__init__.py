"""The conversion: load, rewrite, plan, build, verify, bundle."""
