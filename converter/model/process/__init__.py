"""Ends a process cleanly: signals while code of others runs, and temporary files of processes that were killed."""
