"""Everything that touches TensorRT: the flavours, the build in a child process, and what its messages mean."""
