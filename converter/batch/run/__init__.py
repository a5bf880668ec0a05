"""Running tasks on this machine: each in a process of its own, with limits."""
