"""Fuzzing, fuzz_models.py, and its parts: where models come from, how they are changed, run, judged and made smaller."""
