"""Builds engines: the flavours of TensorRT, the build in a child process, and what its messages mean."""
