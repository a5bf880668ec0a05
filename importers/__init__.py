"""Describes operators: definitions, aliases, references. Imports neither converter nor TensorRT."""

if __name__ != "trtsmith.importers":  # under another name, classes and caches would exist twice
    raise ImportError(f"import trtsmith.importers, not {__name__}")
