"""Converts models: load, rewrite, plan, build, verify and bundle; also holds the command line."""

if __name__ != "trtsmith.converter":  # under another name, classes and caches would exist twice
    raise ImportError(f"import trtsmith.converter, not {__name__}")
