"""Holds nothing at run time: type checkers read keywords.pyi, which scripts/generate_docs.py makes of declared options."""
