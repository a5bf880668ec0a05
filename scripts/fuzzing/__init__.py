"""Holds the parts of fuzz_models.py: sources of models, changes to them, runs, judgement and reduction."""
