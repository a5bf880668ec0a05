"""Parts of scripts/fuzz_models.py: where models come from, how they are changed, run, judged and made smaller."""
