"""What scripts share that run much: jobs in workers, commands with a limit, children that answer line by line, records."""
