"""What a rule is, and the engine that applies rules to a graph."""
