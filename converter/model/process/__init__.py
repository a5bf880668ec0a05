"""How the process ends: signals while code of others runs, and the temporary files of processes that were killed."""
