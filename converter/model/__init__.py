"""Models as files and in memory: loading, checking and saving them, their weights, the shapes of their inputs."""
