"""Holds what trtsmith knows of operators: definitions, aliases, references. Imports no converter and no TensorRT."""

if __name__ != "trtsmith.importers":  # under another name, classes and caches would exist twice
    raise ImportError(f"import trtsmith.importers, not {__name__}")
