"""Timing engines: what trtexec prints, by layer, against other runtimes, and plugin against native operators."""
