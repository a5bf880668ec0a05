"""zoo.toml: the models of a batch and the options of each, read into tasks, or into every problem at once."""
