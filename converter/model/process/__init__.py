"""Knows this process: its package's folders, signals while code of others runs, temporary files of killed processes."""
