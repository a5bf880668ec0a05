"""Empty when it runs: type checkers read keywords.pyi, which scripts/generate_docs.py makes of the declared options."""
