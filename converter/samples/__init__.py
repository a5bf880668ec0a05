"""Sample models on which the commands of the documents run."""
