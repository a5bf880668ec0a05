"""The pipeline: load, fold, rewrite, plan, build, verify, bundle, and the command line."""
