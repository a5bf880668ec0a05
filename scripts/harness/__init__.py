"""Runs jobs in workers, commands with a time limit, and children that answer line by line, and keeps records of them."""
