"""Running engines: in this process (converter/run.py builds on it), and in a child process that no crash gets out of."""
