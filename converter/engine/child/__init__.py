"""A module of ours in a child process: whatever TensorRT or CUDA does to that process becomes a message here."""
