"""The original model as a picture: its nodes, what became of each, and where each stands."""
