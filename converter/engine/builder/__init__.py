"""Builds engines: the flavours of TensorRT, the build in a child process, and the meaning of its messages."""
