"""One module a command: add_parser() for its arguments, run() for its work."""
